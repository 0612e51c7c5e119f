// Checks values.idl over omniORB: a line "ok NAME", "FAIL NAME<tab>why" or "skip NAME<tab>why" for every feature.
#include <iostream>
#include <functional>
#include "animals.h"

using namespace Tide;

static int failed = 0;

static void expect(bool good, const char *why) { if (!good) throw std::string(why); }

static void feature(const char *name, std::function<void()> body)
{
  std::string why;
  try {
    body();
    std::cout << "ok " << name << std::endl;
    return;
  } catch (std::string &s) { why = s;
  } catch (CORBA::SystemException &e) { why = std::string(e._name()) + " " + (e.NP_minorString() ? e.NP_minorString() : "");
  } catch (CORBA::Exception &e) { why = e._name(); }
  std::cout << "FAIL " << name << "\t" << why << std::endl;
  failed++;
}

static bool is_circle(Node *a)
{
  return a && a->n() == 1 && a->next() && a->next()->n() == 2 && a->next()->next() == a && a->weight() == 1.5 && a->next()->weight() == 2.5;
}

static void plain(Values_ptr values)
{
  feature("null", [=] {
    Node_var r = values->t_node(0);
    expect(!r.in(), "not null");
  });
  feature("value", [=] {
    Node_var v = new NodeImpl(7, "seven", 0), r = values->t_node(v);
    expect(r->n() == 7 && r->weight() == 7.5 && !r->next(), "another value");
  });
  feature("values in a circle", [=] {
    Node_var v = circle(), r = values->t_node(v);
    expect(is_circle(r), "another value");
  });
  feature("shared value", [=] {
    Nodes list;
    list.length(4);
    list[0] = new NodeImpl(1, "a", 0);
    list[1] = circle();
    list[2] = list[0];
    Nodes_var r = values->t_nodes(list);
    expect(r->length() == 4 && r[0] == r[2] && is_circle(r[1]) && !r[3], "another list");
  });
  feature("shared by parameters", [=] {
    Node_var a = new NodeImpl(1, "a", 0), b = a, c;
    expect(values->swap(a, b.inout(), c.out()) == 1 && b.in() == c.in(), "not one value");
    b = new NodeImpl(2, "b", 0);
    expect(values->swap(a, b.inout(), c.out()) == 0 && b->n() == 1 && c->n() == 2, "other values");
  });
  feature("long list of values", [=] {
    Node_var v;
    for (int i = 500; i > 0; i--) v = new NodeImpl(i, "one of many", v._retn());
    Node_var r = values->t_node(v);
    int n = 0;
    for (Node *p = r; p; p = p->next()) expect(p->n() == ++n, "another number");
    expect(n == 500, "another length");
  });
}

static void derived(Values_ptr values)
{
  feature("derived value", [=] {
    Animal_var v = new BirdImpl("Tweety", 2.5), r = values->t_animal(v);
    Bird *b = Bird::_downcast(r);
    expect(b && b->wings() == 2.5 && std::string(b->name()) == "Tweety", "another value");
  });
  feature("truncatable value", [=] {
    Animal_var v = new DogImpl("Rex", 4, "wow", circle()), r = values->t_animal(v);
    Dog *d = Dog::_downcast(r);
    expect(d && std::string(d->bark()) == "wow" && is_circle(d->bone()), "another value");
    Dog_var p = new PuppyImpl("Bo", 4, "wiff", 0, 9), q = values->t_dog(p);
    expect(Puppy::_downcast(q) && Puppy::_downcast(q)->weeks() == 9, "another puppy");
  });
  feature("type at the server", [=] {
    Animal_var b = new BirdImpl("Tweety", 2.5), p = new PuppyImpl("Bo", 4, "wiff", 0, 9);
    CORBA::String_var one = values->kind(b), two = values->kind(p), three = values->kind(0);
    expect(std::string("Bird") == one.in() && std::string("Puppy") == two.in() && std::string("nobody") == three.in(), "another type");
  });
  feature("value of an unknown type", [=] {
    Animal_var r = values->make("Cat");
    Dog *d = Dog::_downcast(r);
    expect(d && std::string(d->name()) == "Tom" && std::string(d->bark()) == "purr" && is_circle(d->bone()), "another value");
  });
  feature("abstract value", [=] {
    Thing_var v = new StoneImpl(0.25), r = values->t_thing(v);
    expect(Stone::_downcast(r) && Stone::_downcast(r)->carats() == 0.25, "another value");
  });
  feature("ValueBase", [=] {
    CORBA::ValueBase_var v = new DogImpl("Rex", 4, "wow", circle()), r = values->t_base(v);
    Dog *d = Dog::_downcast(r);
    expect(d && is_circle(d->bone()), "another value");
  });
  feature("box as ValueBase", [=] {
    CORBA::ValueBase_var v = new Text("boxed"), r = values->t_base(v);
    Text *t = Text::_downcast(r);
    expect(t && std::string(t->_value()) == "boxed", "another box");
  });
}

static void boxes(Values_ptr values)
{
  feature("boxed string", [=] {
    Text_var v = new Text("boxed"), r = values->t_text(v);
    expect(std::string(r->_value()) == "boxed", "another text");
    r = values->t_text(0);
    expect(!r.in(), "not null");
  });
  feature("boxed sequence and struct", [=] {
    Longs list;
    list.length(3);
    list[2] = 5;
    Numbers_var v = new Numbers(list), r = values->t_numbers(v);
    expect(r->length() == 3 && (*r)[2] == 5, "another list");
    Point p = {3, 4.5};
    Place_var w = new Place(p), s = values->t_place(w);
    expect(s->x() == 3 && s->y() == 4.5, "another place");
  });
  feature("values in a struct", [=] {
    Mixed m;
    m.before = "b";
    m.one = new DogImpl("Rex", 4, "wow", circle());
    m.between = 7;
    m.two = m.one;
    m.label = new Text("label");
    m.after = 0.125;
    Mixed_var r = values->t_mixed(m);
    expect(Dog::_downcast(r->one) && r->one == r->two && r->between == 7 && r->after == 0.125, "another struct");
    expect(std::string(r->label->_value()) == "label", "another label");
  });
  feature("value in an any", [=] {
    CORBA::Any a;
    Animal_var v = new DogImpl("Rex", 4, "wow", circle());
    a <<= v.in();
    CORBA::Any_var r = values->t_any(a);
    Animal *d;
    expect((r.in() >>= d) && Dog::_downcast(d) && is_circle(Dog::_downcast(d)->bone()), "another any");
  });
  feature("box in an any", [=] {
    CORBA::Any a;
    Text_var v = new Text("boxed");
    a <<= v.in();
    CORBA::Any_var r = values->t_any(a);
    Text *t;
    expect((r.in() >>= t) && std::string(t->_value()) == "boxed", "another any");
  });
  feature("value in an exception", [=] {
    Animal_var v = new BirdImpl("Tweety", 2.5);
    try { values->lose(v); } catch (Lost &e) {
      expect(Bird::_downcast(e.who) && std::string(e.why) == "gone", "another exception");
      return;
    }
    expect(false, "nothing was raised");
  });
  feature("abstract interface", [=] {
    PosterImpl *poster = new PosterImpl("hello");
    Shown_var v = poster, r = values->t_shown(v);
    Poster *p = Poster::_downcast(r->_NP_to_value());
    expect(p && std::string(p->words()) == "hello", "another value");
    Screen_var s = values->hang();
    Shown_var q = values->t_shown(s);
    CORBA::String_var text = q->show();
    expect(std::string("screen") == text.in(), "another object");
    r = values->t_shown(Shown::_nil());
    expect(CORBA::is_nil(r), "not nil");
  });
}

int main(int argc, char **argv)
{
  try {
    CORBA::ORB_var orb = CORBA::ORB_init(argc, argv);
    teach_all(orb);
    CORBA::Object_var object = orb->string_to_object(argv[1]);
    Values_var values = Values::_narrow(object);
    plain(values);
    derived(values);
    boxes(values);
    std::cout << "skip custom value\tomniORB has none" << std::endl;
    orb->destroy();
  } catch (CORBA::SystemException &e) {
    std::cout << "FAIL start\t" << e._name() << std::endl;
    failed++;
  }
  return failed ? 1 : 0;
}
