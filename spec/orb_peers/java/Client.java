import Shore.*;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.omg.CORBA.Any;
import org.omg.CORBA.AnyHolder;
import org.omg.CORBA.BooleanHolder;
import org.omg.CORBA.IntHolder;
import org.omg.CORBA.ORB;
import org.omg.CORBA.StringHolder;
import org.omg.CORBA.SystemException;
import org.omg.PortableServer.POAHelper;

/**
 * Checks the rich interface over JacORB, or over the ORB that the properties name: a line "ok NAME", "FAIL NAME<tab>why" or "skip NAME<tab>why" for
 * every feature; options as cpp/client.cc.
 */
public final class Client {
  private interface Body { void run() throws Exception; }

  private static ORB orb;
  private static Rich rich;
  private static String only = "", without = "";
  private static int failed;

  private static void feature(String name, Body body) {
    if (!name.contains(only)) return;
    String why;
    try {
      body.run();
      System.out.println("ok " + name);
      return;
    } catch (Wrong e) { why = e.why;
    } catch (SystemException e) {
      why = e.getClass().getSimpleName() + " minor " + e.minor + " completed " + e.completed.value() + " " + e.getMessage();
    } catch (Throwable e) { why = e.getCause() == null ? e.toString() : cause(e.getCause()); }
    System.out.println("FAIL " + name + "\t" + why.replaceAll("[^ -~]", "?"));
    failed++;
  }

  private static String cause(Throwable e) { return e instanceof Wrong ? ((Wrong) e).why : e.toString(); }

  private static void expect(boolean good, String why) { if (!good) throw new IllegalStateException(why); }

  private static boolean leftOut(String what) {
    if (!Arrays.asList(without.split(",")).contains(what)) return false;
    System.out.println("skip " + what + "\twithout " + what);
    return true;
  }

  private static Method operation(String name) {
    for (Method m : RichOperations.class.getMethods()) if (m.getName().equals(name)) return m;
    throw new IllegalStateException("no operation " + name);
  }

  private static void check(String type, int i) throws Exception {
    Object want = Samples.of(type, i);
    Object got = operation("t_" + type).invoke(rich, i, want);
    expect(Same.same(got, want), "[" + i + "] got " + Same.text(got) + ", want " + Same.text(want));
  }

  private static void samples(String... types) {
    for (String type : types)
      feature("t_" + type, () -> { for (int i = 0, n = Samples.count(type); i < n; i++) check(type, i); });
  }

  private static void anys(String type, String[] names) {
    for (int i = 0; i < names.length; i++) {
      int number = i;
      feature("any: " + names[i], () -> check(type, number));
    }
  }

  private static void allSamples() {
    samples("short", "long", "longlong", "ushort", "ulong", "ulonglong", "float", "double", "boolean", "char", "octet", "tide", "string", "name8",
      "money", "digits", "part", "point", "onlytrue", "byushort", "cube", "names", "six", "four", "corners", "octets", "chars", "booleans", "shorts",
      "longlongs", "doubles", "strings", "atmost4", "table", "cubes", "tides", "mixed", "mixeds", "deep", "keywords", "tree", "byboolean", "bychar",
      "byshort", "bylong", "byulong", "bytide", "expr", "anys");
    feature("char beyond ASCII", () -> {                     // or that UTF-8 has no single octet for it
      try { expect(rich.t_char(2, '\u00e1') == '\u00e1', "another char"); } catch (org.omg.CORBA.DATA_CONVERSION e) { return; }
    });
    feature("discriminators without a label", () -> {
      check("byushort", 2);
      check("bychar", 3);
      check("byshort", 3);
      check("bylong", 2);
      check("byulong", 1);
    });
    feature("fixed with leading zeros", () -> {
      check("money", 3);
      check("money", 4);
      check("digits", 2);
      check("part", 1);
      check("part", 2);
    });
    anys("any", Samples.ANY_NAMES);
    if (leftOut("wide")) return;
    samples("wchar", "wstring", "wide8", "wstrings");
    anys("wideany", Samples.WIDE_NAMES);
  }

  private static void names() {
    feature("void", () -> rich.ping());
    feature("inherited operations", () -> expect(rich.grow(1) == 2 && rich.leftward("left").equals("<left"), "another answer"));
    feature("attributes", () -> {
      rich.name("ol\u00e1");
      rich.place(new Point((short) 3, 4.5));
      expect(rich.count() == 42 && rich.name().equals("ol\u00e1") && rich.place().x == 3 && rich.place().y == 4.5, "another value");
    });
    feature("Lua keywords as names", () -> expect(rich.end(1) == 1 && rich.function(2) == 2 && rich.repeat(3) == 3 && rich.nil(4) == 4 &&
      rich.and(5) == 5 && rich.local(6) == 6, "another answer"));
    feature("oneway", () -> {
      rich.poked();
      for (int k = 1; k <= 10; k++) rich.poke(k);
      int sum = 0;
      for (int k = 0; k < 200 && sum < 55; k++) {             // other threads of the server may still be at it
        sum += rich.poked();
        Thread.sleep(5);
      }
      expect(sum == 55, "sum " + sum);
    });
    feature("8 threads at once", Client::threads);
  }

  private static void threads() throws Exception {
    AtomicInteger bad = new AtomicInteger();
    Thread[] all = new Thread[8];
    for (int t = 0; t < all.length; t++) {
      int first = 1000 * t;
      all[t] = new Thread(() -> {
        try { for (int k = 0; k < 50; k++) if (rich.grow(first + k) != first + k + 1) bad.incrementAndGet(); }
        catch (SystemException e) { bad.incrementAndGet(); }
      });
      all[t].start();
    }
    for (Thread t : all) t.join();
    expect(bad.get() == 0, bad + " wrong");
  }

  /** Calls swap_TYPE with samples i and k. */
  private static void swap(String name, String type, Object holder, Object out, int i, int k) {
    feature("inout and out: " + name, () -> {
      java.lang.reflect.Field b = holder.getClass().getField("value"), r = out.getClass().getField("value");
      Object a = Samples.of(type, i), old = Samples.of(type, k);
      b.set(holder, Samples.of(type, k));
      Object v = operation("swap_" + name).invoke(rich, a, holder, out);
      expect(Same.same(v, a) && Same.same(b.get(holder), a) && Same.same(r.get(out), old), "got " + Same.text(v) + " " + Same.text(r.get(out)));
    });
  }

  private static void modes() {
    swap("long", "long", new IntHolder(), new IntHolder(), 1, 2);
    swap("boolean", "boolean", new BooleanHolder(), new BooleanHolder(), 0, 1);
    swap("string", "string", new StringHolder(), new StringHolder(), 1, 2);
    swap("money", "money", new MoneyHolder(), new MoneyHolder(), 0, 1);
    swap("point", "point", new PointHolder(), new PointHolder(), 0, 1);
    swap("octets", "octets", new OctetsHolder(), new OctetsHolder(), 1, 0);
    swap("mixed", "mixed", new MixedHolder(), new MixedHolder(), 1, 0);
    swap("bytide", "bytide", new ByTideHolder(), new ByTideHolder(), 2, 3);
    swap("any", "any", new AnyHolder(), new AnyHolder(), 18, 12);
    swap("cube", "cube", new CubeHolder(), new CubeHolder(), 0, 1);
    swap("names", "names", new NamesHolder(), new NamesHolder(), 0, 0);
    feature("inout and out: reference", () -> {
      BaseHolder b = new BaseHolder(), r = new BaseHolder();
      Base v = rich.swap_base(rich.myself(), b, r);
      expect(v.grow(1) == 2 && b.value.grow(2) == 3 && r.value == null, "another reference");
    });
  }

  private static void failures() {
    feature("exception without members", () -> {
      try { rich.raise_nothing(); } catch (Nothing e) { return; }
      expect(false, "nothing was raised");
    });
    feature("exception with members", () -> {
      try { rich.raise_full(-7); } catch (Full f) {
        expect(f.t == Tide.HIGH && f.n == -7 && f.s.equals("full") && f.p.x == -7 && Same.same(f.list, Samples.of("strings", 1)), "another content");
        return;
      }
      expect(false, "nothing was raised");
    });
    feature("system exception", () -> {
      try { rich.refuse(); } catch (org.omg.CORBA.NO_PERMISSION e) {
        expect(e.minor == 42 && e.completed == org.omg.CORBA.CompletionStatus.COMPLETED_YES, "minor " + e.minor);
        return;
      }
      expect(false, "nothing was raised");
    });
    feature("unknown operation", () -> {
      try { request("no_such_thing"); } catch (org.omg.CORBA.BAD_OPERATION e) { return; }
      expect(false, "nothing was raised");
    });
  }

  private static void request(String operation) {
    org.omg.CORBA.Request r = rich._request(operation);
    r.invoke();
    Exception e = r.env().exception();
    if (e instanceof SystemException) throw (SystemException) e;
  }

  private static final class Tenfold extends BasePOA {
    @Override
    public int grow(int n) { return n * 10; }
  }

  private static void references() {
    feature("reference to itself", () -> {
      Base me = rich.myself();
      expect(rich.is_myself(me), "is_myself says no");
      expect(me._is_equivalent(rich), "not equivalent");
      expect(me.grow(41) == 42, "another answer");
    });
    feature("nil reference", () -> expect(rich.none() == null, "not nil"));
    feature("reference passed on", () -> {
      org.omg.CORBA.Object o = rich.keep(rich);
      expect(o._is_equivalent(rich) && rich.keep(null) == null, "another reference");
    });
    feature("sequence of references", () -> {
      org.omg.CORBA.Object[] r = rich.keep_all(new org.omg.CORBA.Object[] {rich, null, rich});
      expect(r.length == 3 && r[1] == null && r[2]._is_equivalent(rich), "another list");
    });
    feature("reference in an any", () -> {
      Any a = orb.create_any(), b = orb.create_any();
      b.insert_long(1);
      RichHelper.insert(a, rich);
      Any v = rich.swap_any(a, new AnyHolder(b), new AnyHolder());
      expect(RichHelper.extract(v).grow(1) == 2, "no reference came back");
    });
    feature("_is_a", () -> {
      expect(rich._is_a("IDL:mare.test/Shore/Rich:1.0") && rich._is_a("IDL:mare.test/Shore/Right:1.0") &&
        rich._is_a("IDL:mare.test/Shore/Base:1.0") && rich._is_a("IDL:omg.org/CORBA/Object:1.0"), "no for a base");
      expect(!rich._is_a("IDL:mare.test/Shore/More:1.0"), "yes for another interface");
    });
    feature("_non_existent", () -> expect(!rich._non_existent(), "says it does not exist"));
    feature("narrow to a base", () -> expect(RightHelper.narrow(rich.keep(rich)) != null, "another answer"));
    if (!leftOut("callback"))
      feature("callback", () -> expect(rich.call_back(new Tenfold()._this(orb), 5) == 50, "another answer"));
    Rich other = rich.forwarder();
    if (other == null) { System.out.println("skip forward\tthe server has no forwarder"); return; }
    feature("forward", () -> {
      for (int k = 0; k < 3; k++) expect(other.grow(k) == k + 1, "another answer");
      expect(other.t_octets(2, (byte[]) Samples.of("octets", 2)).length == 300000, "another length");
    });
  }

  private static void overlap() {
    feature("replies out of order", () -> {
      AtomicBoolean slowDone = new AtomicBoolean();
      rich.ping();
      Thread slow = new Thread(() -> { try { rich.slow(1500); } catch (SystemException e) { slowDone.set(true); } slowDone.set(true); });
      slow.start();
      Thread.sleep(100);
      for (int k = 0; k < 5; k++) expect(rich.grow(k) == k + 1, "another answer");
      boolean before = !slowDone.get();
      slow.join();
      expect(before, "the quick call waited for the slow one");
    });
  }

  private static void pauses(double seconds) {
    feature("calls after idle closing", () -> {
      for (int k = 0; k < 3; k++) {
        if (k > 0) Thread.sleep((long) (1000 * seconds));
        expect(rich.grow(k) == k + 1, "another answer");
      }
    });
  }

  /** JacORB's way of saying who calls: by its name, because other ORBs run this program, too. */
  private static void user(String name) throws Exception {
    Class.forName("org.jacorb.security.sas.GssUpContext").getMethod("setUsernamePassword", String.class, String.class).invoke(null, name, "secret");
  }

  public static void main(String[] args) throws Exception {
    java.util.Properties properties = Server.properties();
    for (int k = 1; k < args.length; k++)                     // as omniORB's option, in GlassFish's words
      if (args[k - 1].equals("-ORBmaxGIOPVersion")) properties.put("com.sun.corba.ee.giop.ORBGIOPVersion", args[k]);
    orb = ORB.init(args, properties);
    Samples.use(orb);
    POAHelper.narrow(orb.resolve_initial_references("RootPOA")).the_POAManager().activate();
    double pause = 0;
    boolean overlap = false;
    for (String a : args) {
      if (a.startsWith("only=")) only = a.substring(5);
      if (a.startsWith("without=")) without = a.substring(8);
      if (a.startsWith("pause=")) pause = Double.parseDouble(a.substring(6));
      if (a.startsWith("overlap=")) overlap = true;
      if (a.startsWith("user=")) user(a.substring(5));
    }
    try {
      rich = RichHelper.narrow(orb.string_to_object(args[0]));
      if (pause > 0) pauses(pause);
      else if (overlap) overlap();
      else { names(); modes(); failures(); references(); allSamples(); }
    } catch (SystemException e) {
      System.out.println("FAIL start\t" + e);
      failed++;
    }
    System.exit(failed > 0 ? 1 : 0);
  }
}
