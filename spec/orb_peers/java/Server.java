import Shore.*;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicInteger;
import org.omg.CORBA.ORB;
import org.omg.PortableServer.POA;
import org.omg.PortableServer.POAHelper;

/** The rich interface served over JacORB, or over the ORB that the properties name. Prints the reference, serves until its standard input ends. */
public final class Server implements InvocationHandler {
  private final AtomicInteger sum = new AtomicInteger();
  private volatile String name = "nobody";
  private volatile Point place = new Point((short) 0, 0);
  private Rich self, forwarder;
  private final Runnable first;                             // before each call: -Dmare.first=CLASS

  private Server() throws Exception {
    String name = System.getProperty("mare.first");
    first = name == null ? () -> {} : (Runnable) Class.forName(name).getConstructor().newInstance();
  }

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
    String op = method.getName();
    first.run();
    if (op.startsWith("t_")) return sample(op.substring(2), (Integer) args[0], args[1]);
    if (op.startsWith("swap_")) return swap(args);
    switch (op) {
      case "grow": return (Integer) args[0] + 1;
      case "leftward": return "<" + args[0];
      case "count": return 42;
      case "name": if (args == null) return name; name = (String) args[0]; return null;
      case "place": if (args == null) return place; place = (Point) args[0]; return null;
      case "ping": return null;
      case "raise_nothing": throw new Nothing();
      case "raise_full":
        throw new Full(Tide.HIGH, (Integer) args[0], "full", Samples.point(0), (String[]) Samples.of("strings", 1));
      case "refuse": throw new org.omg.CORBA.NO_PERMISSION("", 42, org.omg.CORBA.CompletionStatus.COMPLETED_YES);
      case "poke": sum.addAndGet((Integer) args[0]); return null;
      case "poked": return sum.getAndSet(0);
      case "slow": Thread.sleep((Integer) args[0]); return null;
      case "myself": return self;
      case "none": case "more": return null;
      case "forwarder": return forwarder;
      case "is_myself": return self._is_equivalent((org.omg.CORBA.Object) args[0]);
      case "call_back": return ((Base) args[0]).grow((Integer) args[1]);
      case "hashCode": return System.identityHashCode(this);
      case "equals": return proxy == args[0];
      case "toString": return "Rich";
      default: return args[0];                              // keep, keep_all, the keywords
    }
  }

  private Object sample(String type, int i, Object got) throws Wrong {
    Object want = Samples.of(type, i);
    if (Same.same(got, want)) return want;
    String why = "t_" + type + "[" + i + "]: the server got " + Same.text(got) + ", wants " + Same.text(want);
    System.err.println(why);
    throw new Wrong(why.replaceAll("[^ -~]", "?"));
  }

  /** r = old b, b = a, and the result is a. */
  private Object swap(Object[] args) throws Exception {
    java.lang.reflect.Field b = args[1].getClass().getField("value"), r = args[2].getClass().getField("value");
    r.set(args[2], b.get(args[1]));
    b.set(args[1], args[0]);
    return args[0];
  }

  public static void main(String[] args) throws Exception {
    ORB orb = ORB.init(args, properties());
    Samples.use(orb);
    POA root = POAHelper.narrow(orb.resolve_initial_references("RootPOA"));
    Server server = new Server();
    RichOperations operations =
      (RichOperations) Proxy.newProxyInstance(Server.class.getClassLoader(), new Class<?>[] {RichOperations.class}, server);
    server.self = new RichPOATie(operations)._this(orb);
    org.omg.CORBA.Object forwarder = Forwarder.to(server.self, RichHelper.id(), orb, root);
    server.forwarder = forwarder == null ? null : RichHelper.unchecked_narrow(forwarder);
    root.the_POAManager().activate();
    System.out.println(orb.object_to_string(server.self));
    System.out.flush();
    while (System.in.read() >= 0) {}
    orb.shutdown(true);
    System.exit(0);
  }
}
