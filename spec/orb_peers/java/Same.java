import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.math.BigDecimal;
import org.omg.CORBA.Any;

/** Whether two values of IDL types are the same, member by member. */
final class Same {
  static boolean same(Object a, Object b) {
    if (a == null || b == null) return a == b;
    if (a instanceof BigDecimal) return ((BigDecimal) a).compareTo((BigDecimal) b) == 0;
    if (a instanceof Any) return ((Any) a).equal((Any) b);
    if (a instanceof Number || a instanceof String || a instanceof Boolean || a instanceof Character) return a.equals(b);
    if (a.getClass() != b.getClass()) return false;
    if (a.getClass().isArray()) return sameArray(a, b);
    if (a instanceof Shore.Tide) return a == b;
    return sameFields(a, b);
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
