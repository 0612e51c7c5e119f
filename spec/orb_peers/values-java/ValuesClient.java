import Tide.*;
import org.omg.CORBA.Any;
import org.omg.CORBA.ORB;
import org.omg.CORBA.SystemException;

/** Checks values.idl over JacORB: a line "ok NAME", "FAIL NAME<tab>why" or "skip NAME<tab>why" for every feature. */
public final class ValuesClient {
  private interface Body { void run() throws Exception; }

  private static ORB orb;
  private static Values values;
  private static int failed;

  private static void feature(String name, Body body) {
    String why;
    try {
      body.run();
      System.out.println("ok " + name);
      return;
    } catch (SystemException e) { why = e.getClass().getSimpleName() + " minor " + e.minor + " " + e.getMessage();
    } catch (Throwable e) { why = e.toString(); }
    System.out.println("FAIL " + name + "\t" + why.replaceAll("[^ -~]", "?"));
    failed++;
  }

  private static void expect(boolean good, String why) { if (!good) throw new IllegalStateException(why); }

  private static void plain() {
    feature("null", () -> expect(values.t_node(null) == null, "not null"));
    feature("value", () -> {
      Node r = values.t_node(new Animals.NodeImpl(7, "seven", null));
      expect(r.n == 7 && r.weight == 7.5 && r.next == null && ((Animals.NodeImpl) r).text().equals("seven"), "another value");
    });
    feature("values in a circle", () -> expect(Animals.isCircle(values.t_node(Animals.circle())), "another value"));
    feature("shared value", () -> {
      Node a = new Animals.NodeImpl(1, "a", null);
      Node[] r = values.t_nodes(new Node[] {a, Animals.circle(), a, null});
      expect(r.length == 4 && r[0] == r[2] && Animals.isCircle(r[1]) && r[3] == null, "another list");
    });
    feature("shared by parameters", () -> {
      Node a = new Animals.NodeImpl(1, "a", null);
      NodeHolder b = new NodeHolder(a), c = new NodeHolder();
      expect(values.swap(a, b, c) == 1 && b.value == c.value, "not one value");
      b.value = new Animals.NodeImpl(2, "b", null);
      expect(values.swap(a, b, c) == 0 && b.value.n == 1 && c.value.n == 2, "other values");
    });
    feature("long list of values", () -> {
      Node v = null;
      for (int i = 500; i > 0; i--) v = new Animals.NodeImpl(i, "one of many", v);
      int n = 0;
      for (Node p = values.t_node(v); p != null; p = p.next) expect(p.n == ++n, "another number");
      expect(n == 500, "another length");
    });
  }

  private static void derived() {
    feature("derived value", () -> {
      Animal r = values.t_animal(Animals.make("Bird"));
      expect(r instanceof Bird && ((Bird) r).wings == 2.5 && r.name.equals("Tweety"), "another value");
    });
    feature("truncatable value", () -> {
      Animal r = values.t_animal(Animals.make("Dog"));
      expect(r instanceof Dog && ((Dog) r).bark.equals("wow") && Animals.isCircle(((Dog) r).bone), "another value");
      Dog q = values.t_dog((Dog) Animals.make("Puppy"));
      expect(q instanceof Puppy && ((Puppy) q).weeks == 7 && Animals.isCircle(q.bone), "another puppy");
    });
    feature("type at the server", () ->
      expect(values.kind(Animals.make("Bird")).equals("Bird") && values.kind(Animals.make("Puppy")).equals("Puppy") &&
        values.kind(null).equals("nobody"), "another type"));
    feature("value of an unknown type", () -> {
      Dog d = (Dog) values.make("Cat");
      expect(d.name.equals("Tom") && d.bark.equals("purr") && Animals.isCircle(d.bone), "another value");
    });
    feature("abstract value", () -> {
      Thing r = values.t_thing(new Animals.StoneImpl(0.25));
      expect(r instanceof Stone && ((Stone) r).carats == 0.25, "another value");
    });
    feature("ValueBase", () -> {
      Dog d = (Dog) values.t_base(Animals.make("Dog"));
      expect(Animals.isCircle(d.bone), "another value");
    });
  }

  private static void boxes() {
    feature("boxed string", () -> expect(values.t_text("boxed").equals("boxed") && values.t_text(null) == null, "another text"));
    feature("boxed sequence and struct", () -> {
      int[] r = values.t_numbers(new int[] {0, 0, 5});
      Point p = values.t_place(new Point((short) 3, 4.5));
      expect(r.length == 3 && r[2] == 5 && p.x == 3 && p.y == 4.5, "another content");
    });
    feature("values in a struct", () -> {
      Animal dog = Animals.make("Dog");
      Mixed r = values.t_mixed(new Mixed("b", dog, (byte) 7, dog, "label", 0.125));
      expect(r.one instanceof Dog && r.one == r.two && r.between == 7 && r.label.equals("label") && r.after == 0.125, "another struct");
    });
    feature("value in an any", () -> {
      Any a = orb.create_any();
      AnimalHelper.insert(a, Animals.make("Dog"));
      Dog d = (Dog) AnimalHelper.extract(values.t_any(a));
      expect(d.bark.equals("wow") && Animals.isCircle(d.bone), "another any");
    });
    feature("box in an any", () -> {
      Any a = orb.create_any();
      TextHelper.insert(a, "boxed");
      expect(TextHelper.extract(values.t_any(a)).equals("boxed"), "another any");
    });
    feature("value in an exception", () -> {
      try { values.lose(Animals.make("Bird")); } catch (Lost e) {
        expect(e.who instanceof Bird && e.why.equals("gone"), "another exception");
        return;
      }
      expect(false, "nothing was raised");
    });
    feature("abstract interface", () -> {
      Shown r = values.t_shown(new Animals.PosterImpl("hello"));
      expect(r instanceof Poster && ((Poster) r).words.equals("hello"), "another value");
      expect(values.t_shown(values.hang()).show().equals("screen") && values.t_shown(null) == null, "another object");
    });
  }

  public static void main(String[] args) throws Exception {
    orb = ORB.init(args, ValuesServer.properties());
    Animals.teachAll(orb);
    try {
      values = ValuesHelper.narrow(orb.string_to_object(args[0]));
      plain();
      derived();
      boxes();
      org.omg.CORBA.Object o = values.crafts();
      if (o == null) System.out.println("skip custom value\tthe server has none");
      else feature("custom value", () -> {
        Odd r = CraftsHelper.narrow(o).t_odd(new Animals.OddImpl(7, "seven", Animals.circle()));
        expect(r.a == 7 && r.b.equals("seven") && Animals.isCircle(r.c), "another value");
      });
    } catch (SystemException e) {
      System.out.println("FAIL start\t" + e);
      failed++;
    }
    System.exit(failed > 0 ? 1 : 0);
  }
}
