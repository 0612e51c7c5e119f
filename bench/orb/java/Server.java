import ORBTests.*;
import java.util.Properties;
import org.omg.CORBA.ORB;
import org.omg.PortableServer.POA;
import org.omg.PortableServer.POAHelper;

/** The Sender of bench.idl over JacORB. Prints its reference, serves until its standard input ends. */
public final class Server extends SenderPOA {
  static Properties properties() {
    Properties p = new Properties();
    p.putAll(System.getProperties());
    p.putIfAbsent("org.omg.CORBA.ORBClass", "org.jacorb.orb.ORB");
    p.putIfAbsent("org.omg.CORBA.ORBSingletonClass", "org.jacorb.orb.ORBSingleton");
    return p;
  }

  public void send_void() {}
  public void send_objref(org.omg.CORBA.Object value) {}
  public void send_objrefs(org.omg.CORBA.Object[] value) {}
  public void send_structs(FullStruct[] value) {}
  public void raise_empty() throws EmptyExcept { throw new EmptyExcept(); }
  public String echo_string(String value) { return value; }
  public byte[] echo_octets(byte[] value) { return value; }

  public static void main(String[] args) throws Exception {
    ORB orb = ORB.init(args, properties());
    POA poa = POAHelper.narrow(orb.resolve_initial_references("RootPOA"));
    org.omg.CORBA.Object self = poa.servant_to_reference(new Server());
    poa.the_POAManager().activate();
    System.out.println(orb.object_to_string(self));
    System.out.flush();
    while (System.in.read() >= 0) {}
    System.exit(0);
  }
}
