import Tide.*;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Properties;
import org.omg.CORBA.ORB;
import org.omg.PortableServer.POA;
import org.omg.PortableServer.POAHelper;

/** values.idl served over JacORB. Prints the reference, serves until its standard input ends. */
public final class ValuesServer implements InvocationHandler {
  private Screen screen;
  private Crafts crafts;

  static Properties properties() {
    Properties p = new Properties();
    p.putAll(System.getProperties());
    p.putIfAbsent("org.omg.CORBA.ORBClass", "org.jacorb.orb.ORB");
    p.putIfAbsent("jacorb.connection.client.pending_reply_timeout", "20000");
    p.putIfAbsent("org.omg.CORBA.ORBSingletonClass", "org.jacorb.orb.ORBSingleton");
    return p;
  }

  @Override
  public Object invoke(Object proxy, Method method, Object[] args) throws Throwable {
    switch (method.getName()) {
      case "swap": {
        NodeHolder b = (NodeHolder) args[1], c = (NodeHolder) args[2];
        int one = args[0] == b.value ? 1 : 0;
        c.value = b.value;
        b.value = (Node) args[0];
        return one;
      }
      case "kind": {
        Object v = args[0];
        return v == null ? "nobody" : v instanceof Puppy ? "Puppy" : v instanceof Dog ? "Dog" : v instanceof Bird ? "Bird" : "Animal";
      }
      case "make": return Animals.make((String) args[0]);
      case "lose": throw new Lost((Animal) args[0], "gone");
      case "hang": return screen;
      case "crafts": return crafts;
      case "hashCode": return System.identityHashCode(this);
      case "equals": return proxy == args[0];
      case "toString": return "Values";
      default: return args[0];
    }
  }

  public static void main(String[] args) throws Exception {
    ORB orb = ORB.init(args, properties());
    Animals.teachAll(orb);
    Animals.teachCat(orb);
    POA root = POAHelper.narrow(orb.resolve_initial_references("RootPOA"));
    ValuesServer server = new ValuesServer();
    server.screen = new ScreenPOA() {
      @Override
      public String show() { return "screen"; }
    }._this(orb);
    server.crafts = new CraftsPOA() {
      @Override
      public Odd t_odd(Odd v) { return v; }
    }._this(orb);
    ValuesOperations operations =
      (ValuesOperations) Proxy.newProxyInstance(ValuesServer.class.getClassLoader(), new Class<?>[] {ValuesOperations.class}, server);
    Values self = new ValuesPOATie(operations)._this(orb);
    root.the_POAManager().activate();
    System.out.println(orb.object_to_string(self));
    System.out.flush();
    while (System.in.read() >= 0) {}
    orb.shutdown(true);
    System.exit(0);
  }
}
