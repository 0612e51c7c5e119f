import ORBTests.*;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.omg.CORBA.ORB;

/** Times calls of bench.idl's Sender over JacORB; arguments as cpp/client.cc. */
public final class Client {
  private interface Call { void run() throws Exception; }

  private static final Map<String, String> options = new HashMap<>();

  private static int number(String name, int usual) { return Integer.parseInt(options.getOrDefault(name, "" + usual)); }

  private static FullStruct[] structs(int n) {
    FullStruct[] list = new FullStruct[n];
    for (int k = 0; k < n; k++)
      list[k] = new FullStruct((short) 1234, "a string value", (byte) 200, (short) -1234, -123456, 3.14159, 'c', 2.5f, TypeEnum.ENUM_C, true, 123456);
    return list;
  }

  private static Map<String, Call> works(ORB orb, Sender sender) throws Exception {
    Map<String, Call> all = new HashMap<>();
    all.put("send_void", sender::send_void);
    all.put("raise_empty", () -> { try { sender.raise_empty(); throw new IllegalStateException(); } catch (EmptyExcept e) { return; } });
    List<String> lines = Files.readAllLines(Paths.get(options.get("refs")));
    org.omg.CORBA.Object[] refs = new org.omg.CORBA.Object[lines.size()];
    for (int k = 0; k < refs.length; k++) refs[k] = orb.string_to_object(lines.get(k));
    all.put("send_objref", () -> sender.send_objref(refs[0]));
    all.put("send_objrefs", () -> sender.send_objrefs(refs));
    for (int n : new int[] {10, 100, 1000}) {
      FullStruct[] list = structs(n);
      all.put("send_structs_" + n, () -> sender.send_structs(list));
    }
    char[] letters = new char[1 << 20];
    Arrays.fill(letters, 'x');
    String text = new String(letters);
    all.put("string_1m", () -> { if (sender.echo_string(text).length() != text.length()) throw new IllegalStateException(); });
    byte[] octets = new byte[1 << 20];
    Arrays.fill(octets, (byte) 7);
    all.put("octets_1m", () -> { if (sender.echo_octets(octets).length != octets.length) throw new IllegalStateException(); });
    return all;
  }

  private static void time(String name, Call call) throws Exception {
    int calls = number("calls", 100), warm = number("warm", 10), samples = number("samples", 30);
    StringBuilder line = new StringBuilder(name);
    for (int s = -warm; s < samples; s++) {
      long start = System.nanoTime();
      for (int k = 0; k < calls; k++) call.run();
      if (s >= 0) line.append(' ').append((System.nanoTime() - start) / 1e6);
    }
    System.out.println(line);
  }

  public static void main(String[] args) throws Exception {
    ORB orb = ORB.init(args, Server.properties());
    List<String> names = new ArrayList<>();
    for (int k = 1; k < args.length; k++) {
      int equals = args[k].indexOf('=');
      if (equals > 0) options.put(args[k].substring(0, equals), args[k].substring(equals + 1)); else names.add(args[k]);
    }
    Sender sender = SenderHelper.narrow(orb.string_to_object(args[0]));
    Map<String, Call> all = works(orb, sender);
    for (String name : names) time(name, all.get(name));
    System.out.flush();
    System.exit(0);
  }
}
