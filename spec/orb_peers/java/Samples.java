import Shore.*;
import java.math.BigDecimal;
import org.omg.CORBA.Any;
import org.omg.CORBA.ORB;
import org.omg.CORBA.TCKind;

/** The samples of rich.idl in Java: the values of cpp/samples.cc and samples.lua. of(name, i) is null beyond the last one. */
final class Samples {
  static final String[] ANY_NAMES = {"null", "short", "long", "longlong", "ushort", "ulong", "ulonglong", "float", "double", "boolean", "char",
    "octet", "string", "bounded string", "fixed", "enum", "alias", "struct", "nested struct", "recursive struct", "union", "recursive union",
    "sequence", "sequence of structs", "octets", "array", "array of strings", "nil reference", "any", "TypeCode", "exception"};
  static final String[] WIDE_NAMES = {"wchar", "wstring", "bounded wstring"};

  private static final String LATIN = "ol\u00e1", WIDE = "ol\u00e1 \u2206 \u6f6e", EIGHT = "\u2206\u2206\u2206\u2206\u2206\u2206\u2206\u2206";
  private static ORB orb;

  static void use(ORB theOrb) { orb = theOrb; }
  static ORB orb() { return orb; }

  /** How many samples t_TYPE is tried with in one go. */
  static int count(String type) {
    switch (type) {
      case "char": case "digits": case "byushort": case "bylong": return 2;
      case "money": case "bychar": case "byshort": return 3;
      case "part": case "byulong": return 1;
      default:
        int n = 0;
        while (of(type, n) != null) n++;
        return n;
    }
  }

  private static Object pick(int i, Object... list) { return i < list.length ? list[i] : null; }

  static Object of(String name, int i) {
    Object v = scalar(name, i);
    if (v == null) v = sequence(name, i);
    if (v == null) v = structure(name, i);
    if (v == null) v = union(name, i);
    if (v != null) return v;
    switch (name) {
      case "any": return i < ANY_NAMES.length ? any(i) : null;
      case "wideany": return i < WIDE_NAMES.length ? wideAny(i) : null;
      case "anys": return pick(i, new Any[0], new Any[] {of(1), orb.create_any(), of("three")});
      default: return null;
    }
  }

  private static String large() {
    StringBuilder b = new StringBuilder();
    for (int k = 0; k < 200000; k++) b.append((char) ('a' + k % 26));
    return b.toString();
  }

  private static Object scalar(String name, int i) {
    switch (name) {
      case "short": return pick(i, (short) 0, Short.MIN_VALUE, Short.MAX_VALUE);
      case "long": return pick(i, 0, Integer.MIN_VALUE, Integer.MAX_VALUE);
      case "longlong": return pick(i, 0L, Long.MIN_VALUE, Long.MAX_VALUE, 9007199254740993L);
      case "ushort": return pick(i, (short) 0, (short) 65535);
      case "ulong": return pick(i, 0, -1);
      case "ulonglong": return pick(i, 0L, -1L, Long.MIN_VALUE);
      case "float": return pick(i, 0f, -1.5f, Float.MAX_VALUE, Float.POSITIVE_INFINITY);
      case "double": return pick(i, 0.0, 3.141592653589793, 1e308, Double.NEGATIVE_INFINITY);
      case "boolean": return pick(i, true, false);
      case "char": return pick(i, 'a', '~', '\u00e1');
      case "octet": return pick(i, (byte) 0, (byte) 255);
      case "wchar": return pick(i, 'a', '\u00e1', '\u2206', '\ufffd');
      case "tide": return pick(i, Tide.LOW, Tide.FALLING);
      case "string": return pick(i, "", "low tide", LATIN, large());
      case "name8": return pick(i, "", "12345678");
      case "wstring": return pick(i, "", WIDE, "\ud83c\udf0a");
      case "wide8": return pick(i, "", EIGHT);
      case "money": return decimal(i, "12345.67", "99999.99", "-99999.99", "0.00", "-0.01");
      case "digits": return decimal(i, "9999999999999999999999999999999", "-1234567890123456789012345678901", "0");
      case "part": return decimal(i, "0.9999", "0.0001", "-0.5000");
      default: return null;
    }
  }

  private static Object decimal(int i, String... list) { return i < list.length ? new BigDecimal(list[i]) : null; }

  static int[][][] cube(int i) {
    int[][][] v = new int[2][3][2];
    for (int a = 0; a < 2; a++)
      for (int b = 0; b < 3; b++)
        for (int c = 0; c < 2; c++) v[a][b][c] = (a * 100 + b * 10 + c) * (i == 0 ? 1 : -1);
    return v;
  }

  private static String[][] names() { return new String[][] {{"", "a"}, {"bc", LATIN}}; }

  private static byte[] octets(int length, int factor) {
    byte[] v = new byte[length];
    for (int k = 0; k < length; k++) v[k] = (byte) (k * factor);
    return v;
  }

  private static byte[] six(int i) { return i == 0 ? octets(6, 1) : new byte[] {-1, -1, -1, -1, -1, -1}; }

  private static Object sequence(String name, int i) {
    switch (name) {
      case "cube": return pick(i, cube(0), cube(1));
      case "names": return pick(i, (Object) names());
      case "six": return pick(i, six(0), six(1));
      case "four": return pick(i, "tide".toCharArray());
      case "corners": return pick(i, (Object) new Point[] {new Point((short) -1, 0.5), new Point((short) 1, -0.5)});
      case "octets": return pick(i, new byte[0], octets(256, 1), octets(300000, 7), octets(10000, 7));
      case "chars": return pick(i, new char[0], "abc~".toCharArray());
      case "booleans": return pick(i, new boolean[0], new boolean[] {true, false, true});
      case "shorts": return pick(i, new short[0], new short[] {-1, 0, 1});
      case "longlongs": return pick(i, new long[0], new long[] {Long.MIN_VALUE, Long.MAX_VALUE, 9007199254740993L});
      case "doubles": return pick(i, new double[0], new double[] {0.1, -1e300});
      case "strings": return pick(i, new String[0], new String[] {"", "a", LATIN});
      case "wstrings": return pick(i, new String[0], new String[] {"", "\u2206"});
      case "atmost4": return pick(i, new int[0], new int[] {1, 2, 3, 4});
      case "table": return pick(i, new short[0][], new short[][] {{1}, {}, {2, 3}});
      case "cubes": return pick(i, new int[0][][][], new int[][][][] {cube(0), cube(1)});
      case "tides": return pick(i, new Tide[0], new Tide[] {Tide.LOW, Tide.RISING, Tide.HIGH, Tide.FALLING});
      default: return null;
    }
  }

  static Point point(int i) { return i == 0 ? new Point((short) -7, 2.25) : new Point((short) 32767, -1e-300); }

  static Mixed mixed(int i) {
    if (i == 0) return new Mixed((byte) 0, (short) 0, 'c', 0, false, 0, 0, "", 0, Tide.LOW, (short) 0, 0, 0, point(0));
    return new Mixed((byte) 255, (short) -2, 'm', -3, true, Long.MIN_VALUE + 1, 0.5f, "mixed", -2.5, Tide.HIGH, (short) 65535, -1, -1L, point(0));
  }

  private static Mixed[] mixeds() {
    Mixed[] v = new Mixed[1000];
    for (int k = 0; k < v.length; k++) {
      v[k] = mixed(1);
      v[k].l = k;
    }
    return v;
  }

  private static Tree tree(String name, Tree... kids) { return new Tree(name, kids); }

  private static Deep deep() {
    return new Deep(mixed(1), new Point[] {point(0), point(1)}, names(), new byte[][] {{1, 2, 3}, {}}, of(5));
  }

  private static Object structure(String name, int i) {
    switch (name) {
      case "point": return i < 2 ? point(i) : null;
      case "mixed": return i < 2 ? mixed(i) : null;
      case "mixeds": return pick(i, new Mixed[0], mixeds());
      case "deep": return i < 1 ? deep() : null;
      case "keywords": return pick(i, new Keywords(1, "two", true, 4, 5));
      case "tree": return pick(i, tree("leaf"), tree("root", tree("a"), tree("b", tree("c"))));
      default: return null;
    }
  }

  private static Expr number(int n) { Expr e = new Expr(); e.number(n); return e; }

  private static Expr sum(Expr... list) { Expr e = new Expr(); e.sum(list); return e; }

  /** Sets a discriminator that JacORB's own methods refuse. */
  private static void label(Object union, Object value) {
    try {
      java.lang.reflect.Field f = union.getClass().getDeclaredField("discriminator");
      f.setAccessible(true);
      f.set(union, value);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  private static Object union(String name, int i) {
    switch (name) {
      case "byboolean": { ByBoolean v = new ByBoolean(); if (i == 0) v.yes(5); else v.no("nay"); return i < 2 ? v : null; }
      case "onlytrue": { OnlyTrue v = new OnlyTrue(); if (i == 0) v.yes(-5); else v.__default(); return i < 2 ? v : null; }
      case "bychar": {
        ByChar v = new ByChar();
        if (i == 0) v.a(1); else if (i == 3) { v.other(2.5); label(v, 'z'); } else v.bc(i == 1 ? 'b' : 'c', i == 1 ? "b" : "c");
        return i < 4 ? v : null;
      }
      case "byshort": {
        ByShort v = new ByShort();
        if (i == 0) v.minus("minus one"); else if (i == 1) v.least((short) -9); else if (i == 2) v.zero(true);
        else { v.other((byte) 200); label(v, (short) 77); }
        return i < 4 ? v : null;
      }
      case "bylong": {
        ByLong v = new ByLong();
        if (i == 0) v.least((short) -1); else if (i == 1) v.greatest("top"); else v.__default(5);
        return i < 3 ? v : null;
      }
      case "byushort": {
        ByUshort v = new ByUshort();
        if (i == 0) v.none((byte) 9); else if (i == 1) v.greatest(point(0)); else v.__default((short) 5);
        return i < 3 ? v : null;
      }
      case "byulong": {
        ByUlong v = new ByUlong();
        if (i == 0) v.greatest(Long.MAX_VALUE); else { v.other("other"); label(v, -1); }
        return i < 2 ? v : null;
      }
      case "bytide": {
        ByTide v = new ByTide();
        if (i < 2) v.turn(i == 0 ? Tide.LOW : Tide.HIGH, i + 1); else if (i == 2) v.up("up"); else v.other(point(0));
        return i < 4 ? v : null;
      }
      case "expr": return pick(i, number(7), sum(number(1), sum(), sum(number(2), number(3))));
      default: return null;
    }
  }

  private static Any of(int n) { Any a = orb.create_any(); a.insert_long(n); return a; }

  private static Any of(String s) { Any a = orb.create_any(); a.insert_string(s); return a; }

  /** Fills an any by its type: insert() of an alias or of nil keeps another one, and what JacORB's compiler writes for others fills only its own anys. */
  private static void read(Any a, org.omg.CORBA.TypeCode type, java.util.function.Consumer<org.omg.CORBA.portable.OutputStream> write) {
    org.omg.CORBA.portable.OutputStream out = orb.create_any().create_output_stream();
    write.accept(out);
    a.read_value(out.create_input_stream(), type);
  }

  private static Any any(int i) {
    Any a = orb.create_any();
    switch (i) {
      case 1: a.insert_short(Short.MIN_VALUE); break;
      case 2: a.insert_long(Integer.MIN_VALUE); break;
      case 3: a.insert_longlong(Long.MIN_VALUE); break;
      case 4: a.insert_ushort((short) 65535); break;
      case 5: a.insert_ulong(-1); break;
      case 6: a.insert_ulonglong(-1L); break;
      case 7: a.insert_float(-1.5f); break;
      case 8: a.insert_double(3.141592653589793); break;
      case 9: a.insert_boolean(true); break;
      case 10: a.insert_char('z'); break;
      case 11: a.insert_octet((byte) 255); break;
      case 12: a.insert_string(LATIN); break;
      case 13: read(a, Name8Helper.type(), out -> Name8Helper.write(out, "12345678")); break;
      case 14: read(a, MoneyHelper.type(), out -> MoneyHelper.write(out, new BigDecimal("12345.67"))); break;
      case 15: read(a, TideHelper.type(), out -> TideHelper.write(out, Tide.RISING)); break;
      case 16: read(a, MetresHelper.type(), out -> out.write_long(12)); break;
      case 17: read(a, PointHelper.type(), out -> PointHelper.write(out, point(0))); break;
      case 18: read(a, DeepHelper.type(), out -> DeepHelper.write(out, deep())); break;
      case 19: read(a, TreeHelper.type(), out -> TreeHelper.write(out, (Tree) structure("tree", 1))); break;
      case 20: read(a, ByTideHelper.type(), out -> ByTideHelper.write(out, (ByTide) union("bytide", 3))); break;
      case 21: read(a, ExprHelper.type(), out -> ExprHelper.write(out, (Expr) union("expr", 1))); break;
      case 22: read(a, ShortsHelper.type(), out -> ShortsHelper.write(out, new short[] {-1, 0, 1})); break;
      case 23: read(a, MixedsHelper.type(), out -> MixedsHelper.write(out, mixeds())); break;
      case 24: read(a, OctetsHelper.type(), out -> OctetsHelper.write(out, octets(256, 1))); break;
      case 25: read(a, CubeHelper.type(), out -> CubeHelper.write(out, cube(0))); break;
      case 26: read(a, NamesHelper.type(), out -> NamesHelper.write(out, names())); break;
      case 27: read(a, BaseHelper.type(), out -> out.write_Object(null)); break;
      case 28: a.insert_any(of("inner")); break;
      case 29: a.insert_TypeCode(TreeHelper.type()); break;
      case 30: read(a, FullHelper.type(), out -> FullHelper.write(out, new Full(Tide.HIGH, -1, "full", point(0), new String[] {"a"}))); break;
      default: a.type(orb.get_primitive_tc(TCKind.tk_null));
    }
    return a;
  }

  private static Any wideAny(int i) {
    Any a = orb.create_any();
    if (i == 0) a.insert_wchar('\u2206'); else if (i == 1) a.insert_wstring(WIDE); else read(a, Wide8Helper.type(), out -> Wide8Helper.write(out, EIGHT));
    return a;
  }
}
