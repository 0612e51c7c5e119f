import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.math.BigDecimal;
import java.util.Arrays;
import org.omg.CORBA.Any;
import org.omg.CORBA.portable.InputStream;
import org.omg.CORBA.portable.OutputStream;

/** Whether two values of IDL types are the same, member by member. */
final class Same {
  static boolean same(Object a, Object b) {
    if (a == null || b == null) return a == b;
    if (a instanceof BigDecimal) return ((BigDecimal) a).compareTo((BigDecimal) b) == 0;
    if (a instanceof Any) return sameAny((Any) a, (Any) b);
    if (a instanceof Number || a instanceof String || a instanceof Boolean || a instanceof Character) return a.equals(b);
    if (a.getClass() != b.getClass()) return false;
    if (a.getClass().isArray()) return sameArray(a, b);
    if (a instanceof Shore.Tide) return a == b;
    return sameFields(a, b);
  }

  /** As the ORB says, or by type and octets: GlassFish's equal() fails over nil and arrays. */
  private static boolean sameAny(Any a, Any b) {
    try { if (a.equal(b)) return true; } catch (RuntimeException e) { return a.type().equal(b.type()) && Arrays.equals(octets(a), octets(b)); }
    return false;
  }

  private static byte[] octets(Any a) {
    OutputStream out = (OutputStream) Samples.orb().create_output_stream();
    a.write_value(out);
    byte[] all = new byte[1 << 20];
    InputStream in = out.create_input_stream();
    int n = 0;
    try { for (; n < all.length; n++) all[n] = in.read_octet(); } catch (RuntimeException end) { return Arrays.copyOf(all, n); }
    throw new IllegalStateException("an any of 1 MiB");
  }

  private static boolean sameArray(Object a, Object b) {
    int length = Array.getLength(a);
    if (length != Array.getLength(b)) return false;
    for (int k = 0; k < length; k++) if (!same(Array.get(a, k), Array.get(b, k))) return false;
    return true;
  }

  private static boolean sameFields(Object a, Object b) {
    try {
      for (Field f : a.getClass().getDeclaredFields()) {
        if (Modifier.isStatic(f.getModifiers())) continue;
        f.setAccessible(true);
        if (!same(f.get(a), f.get(b))) return false;
      }
      return true;
    } catch (IllegalAccessException e) {
      throw new IllegalStateException(e);
    }
  }

  static String text(Object v) {
    if (v == null) return "null";
    if (v instanceof Any) return "any of " + ((Any) v).type();
    if (!v.getClass().isArray()) return v.toString();
    StringBuilder b = new StringBuilder("{");
    for (int k = 0; k < Math.min(8, Array.getLength(v)); k++) b.append(k == 0 ? "" : ", ").append(text(Array.get(v, k)));
    return b.append("} of ").append(Array.getLength(v)).toString();
  }
}
