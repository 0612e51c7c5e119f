// values.idl served over omniORB. Prints the reference, serves until its standard input ends.
#include "animals.h"
#include "../serve.h"

using namespace Tide;

template <class T> T *same(T *v) { CORBA::add_ref(v); return v; }

class Screen_i : public virtual POA_Tide::Screen {
public:
  char *show() { return CORBA::string_dup("screen"); }
};

class Values_i : public virtual POA_Tide::Values {
public:
  Screen_i *screen;

  Node *t_node(Node *v) { return same(v); }
  Nodes *t_nodes(const Nodes &v) { return new Nodes(v); }
  Animal *t_animal(Animal *v) { return same(v); }
  Dog *t_dog(Dog *v) { return same(v); }
  Text *t_text(Text *v) { return same(v); }
  Numbers *t_numbers(Numbers *v) { return same(v); }
  Place *t_place(Place *v) { return same(v); }
  Thing *t_thing(Thing *v) { return same(v); }
  CORBA::ValueBase *t_base(CORBA::ValueBase *v) { return same(v); }
  Mixed *t_mixed(const Mixed &v) { return new Mixed(v); }
  CORBA::Any *t_any(const CORBA::Any &v) { return new CORBA::Any(v); }
  Shown_ptr t_shown(Shown_ptr v) { return Shown::_duplicate(v); }
  CORBA::Long swap(Node *a, Node *&b, Node_out c)
  {
    CORBA::Long one = a == b;
    c = b;
    b = same(a);
    return one;
  }
  char *kind(Animal *v)
  {
    const char *name = !v ? "nobody" : Puppy::_downcast(v) ? "Puppy" : Dog::_downcast(v) ? "Dog" : Bird::_downcast(v) ? "Bird" : "Animal";
    return CORBA::string_dup(name);
  }
  Animal *make(const char *kind)
  {
    switch (*kind) {
      case 'D': return new DogImpl("Rex", 4, "wow", circle());
      case 'P': return new PuppyImpl("Bo", 4, "wiff", circle(), 7);
      case 'C': return new CatImpl("Tom", circle());
      default: return new BirdImpl("Tweety", 2.5);
    }
  }
  void lose(Animal *who)
  {
    Lost e;
    e.who = same(who);
    e.why = "gone";
    throw e;
  }
  Screen_ptr hang() { return screen->_this(); }
  CORBA::Object_ptr crafts() { return CORBA::Object::_nil(); }
};

int main(int argc, char **argv)
{
  return serve(argc, argv, [](CORBA::ORB_ptr orb, PortableServer::POA_ptr) {
    teach_all(orb);
    teach<CatImpl>(orb, "Cat");
    Values_i *values = new Values_i;
    values->screen = new Screen_i;
    return values->_this();
  });
}
