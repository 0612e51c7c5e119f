import Tide.*;
import org.omg.CORBA.portable.InputStream;
import org.omg.CORBA.portable.ValueFactory;
import org.omg.CORBA_2_3.ORB;

/** The values that server and client of values.idl make, and their factories. */
final class Animals {
  static final class NodeImpl extends Node {
    NodeImpl() {}
    NodeImpl(int i, String s, Node after) { n = i; text = s; next = after; weight = i + 0.5; }
    String text() { return text; }
  }
  static final class AnimalImpl extends Animal {}
  static final class DogImpl extends Dog {
    DogImpl() {}
    DogImpl(String n, short l, String b, Node p) { name = n; legs = l; bark = b; bone = p; }
  }
  static final class PuppyImpl extends Puppy {
    PuppyImpl() {}
    PuppyImpl(String n, short l, String b, Node p, byte w) { name = n; legs = l; bark = b; bone = p; weeks = w; }
  }
  static final class CatImpl extends Cat {
    CatImpl() {}
    CatImpl(String n, Node p) { name = n; legs = 4; bark = "purr"; bone = p; tail = p; meow = "meow"; bone2 = p; }
  }
  static final class BirdImpl extends Bird {
    BirdImpl() {}
    BirdImpl(String n, double w) { name = n; legs = 2; wings = w; }
  }
  static final class StoneImpl extends Stone {
    StoneImpl() {}
    StoneImpl(double c) { carats = c; }
  }
  static final class PosterImpl extends Poster {
    PosterImpl() {}
    PosterImpl(String w) { words = w; }
    @Override
    public String show() { return words; }
  }
  static final class OddImpl extends Odd {
    OddImpl() {}
    OddImpl(int i, String s, Node p) { a = i; b = s; c = p; }
    @Override
    public void marshal(org.omg.CORBA.DataOutputStream out) {
      out.write_long(a);
      out.write_string(b);
      out.write_Value(c);
      out.write_double(a / 2.0);
    }
    @Override
    public void unmarshal(org.omg.CORBA.DataInputStream in) {
      a = in.read_long();
      b = in.read_string();
      c = (Node) in.read_Value();
      if (in.read_double() != a / 2.0) throw new org.omg.CORBA.MARSHAL("another half");
    }
  }

  private interface Maker { java.io.Serializable make(); }

  /** Names are those of the IDL. */
  private static void teach(ORB orb, String name, Maker maker) {
    orb.register_value_factory("IDL:mare.test/Tide/" + name + ":1.0", new ValueFactory() {
      @Override
      public java.io.Serializable read_value(org.omg.CORBA_2_3.portable.InputStream in) { return in.read_value(maker.make()); }
    });
  }

  static void teachAll(org.omg.CORBA.ORB any) {
    ORB orb = (ORB) any;
    teach(orb, "Node", NodeImpl::new);
    teach(orb, "Animal", AnimalImpl::new);
    teach(orb, "Dog", DogImpl::new);
    teach(orb, "Puppy", PuppyImpl::new);
    teach(orb, "Bird", BirdImpl::new);
    teach(orb, "Stone", StoneImpl::new);
    teach(orb, "Poster", PosterImpl::new);
    teach(orb, "Odd", OddImpl::new);
  }
  static void teachCat(org.omg.CORBA.ORB orb) { teach((ORB) orb, "Cat", CatImpl::new); }

  /** Two nodes that point to each other. */
  static Node circle() {
    Node b = new NodeImpl(2, "two", null);
    b.next = new NodeImpl(1, "one", b);
    return b.next;
  }
  static boolean isCircle(Node a) {
    return a != null && a.n == 1 && a.next.n == 2 && a.next.next == a && a.weight == 1.5 && a.next.weight == 2.5 && ((NodeImpl) a).text().equals("one");
  }
  static Animal make(String kind) {
    switch (kind.charAt(0)) {
      case 'D': return new DogImpl("Rex", (short) 4, "wow", circle());
      case 'P': return new PuppyImpl("Bo", (short) 4, "wiff", circle(), (byte) 7);
      case 'C': return new CatImpl("Tom", circle());
      default: return new BirdImpl("Tweety", 2.5);
    }
  }
}
