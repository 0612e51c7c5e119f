import org.omg.CORBA.LocalObject;
import org.omg.IOP.ServiceContext;
import org.omg.PortableInterceptor.ClientRequestInfo;
import org.omg.PortableInterceptor.ClientRequestInterceptor;
import org.omg.PortableInterceptor.ORBInitInfo;
import org.omg.PortableInterceptor.ORBInitializer;
import org.omg.PortableInterceptor.ServerRequestInfo;
import org.omg.PortableInterceptor.ServerRequestInterceptor;

/** Interceptors for both sides: a client's requests say where they come from, a server's replies give that back with a mark. */
public final class Marks extends LocalObject implements ORBInitializer, ClientRequestInterceptor, ServerRequestInterceptor {
  private static final int ASKS = 0x4d415245, ANSWERS = 0x4d415246;

  public void pre_init(ORBInitInfo info) {}

  public void post_init(ORBInitInfo info) {
    try {
      info.add_client_request_interceptor(this);
      info.add_server_request_interceptor(this);
    } catch (org.omg.PortableInterceptor.ORBInitInfoPackage.DuplicateName e) {
      throw new IllegalStateException(e);
    }
  }

  public String name() { return "marks"; }
  public void destroy() {}

  public void send_request(ClientRequestInfo info) {
    info.add_request_service_context(new ServiceContext(ASKS, ("from Java: " + info.operation()).getBytes()), true);
  }

  public void send_poll(ClientRequestInfo info) {}
  public void receive_reply(ClientRequestInfo info) {}
  public void receive_exception(ClientRequestInfo info) {}
  public void receive_other(ClientRequestInfo info) {}

  public void receive_request_service_contexts(ServerRequestInfo info) {
    try {
      String asked = new String(info.get_request_service_context(ASKS).context_data);
      info.add_reply_service_context(new ServiceContext(ANSWERS, ("Java got: " + asked).getBytes()), true);
    } catch (org.omg.CORBA.BAD_PARAM none) {
      return;
    }
  }

  public void receive_request(ServerRequestInfo info) {}
  public void send_reply(ServerRequestInfo info) {}
  public void send_exception(ServerRequestInfo info) {}
  public void send_other(ServerRequestInfo info) {}
}
