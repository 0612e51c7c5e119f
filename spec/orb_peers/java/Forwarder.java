import org.omg.CORBA.LocalObject;
import org.omg.CORBA.ORB;
import org.omg.CORBA.Policy;
import org.omg.PortableServer.ForwardRequest;
import org.omg.PortableServer.POA;
import org.omg.PortableServer.RequestProcessingPolicyValue;
import org.omg.PortableServer.Servant;
import org.omg.PortableServer.ServantLocator;
import org.omg.PortableServer.ServantLocatorPackage.CookieHolder;
import org.omg.PortableServer.ServantRetentionPolicyValue;

/** Sends whoever calls it on to another object. */
final class Forwarder extends LocalObject implements ServantLocator {
  private final org.omg.CORBA.Object target;

  private Forwarder(org.omg.CORBA.Object target) { this.target = target; }

  /** An object that forwards to `target`; nil over JacORB, where a servant manager that forwards never answers. */
  static org.omg.CORBA.Object to(org.omg.CORBA.Object target, String type, ORB orb, POA root) throws Exception {
    if (orb.getClass().getName().startsWith("org.jacorb.")) return null;
    POA poa = root.create_POA("forwarder", root.the_POAManager(), new Policy[] {
      root.create_servant_retention_policy(ServantRetentionPolicyValue.NON_RETAIN),
      root.create_request_processing_policy(RequestProcessingPolicyValue.USE_SERVANT_MANAGER)});
    poa.set_servant_manager(new Forwarder(target));
    return poa.create_reference_with_id(new byte[] {1}, type);
  }

  @Override
  public Servant preinvoke(byte[] id, POA poa, String operation, CookieHolder cookie) throws ForwardRequest { throw new ForwardRequest(target); }

  @Override
  public void postinvoke(byte[] id, POA poa, String operation, Object cookie, Servant servant) {}
}
