// Walks a server's interface repository by omniORB's stubs, and calls an object by DII with the types that it found there.
//   walk REFERENCE [ORB options]      REFERENCE: an object with `long swap(in long a, inout string b, out double c)`
// Prints a line for each thing it found: "id kind", "op name result parameters", "called …", "refused …".
#include <omniORB4/CORBA.h>
#include <cstdio>

static const char *const kinds[] = { "none", "all", "Attribute", "Constant", "Exception", "Interface", "Module", "Operation", "Typedef", "Alias",
  "Struct", "Union", "Enum", "Primitive", "String", "Sequence", "Array", "Repository", "Wstring", "Fixed", "Value", "ValueBox", "ValueMember",
  "Native", "AbstractInterface" };

static void walk(CORBA::Container_ptr container)
{
  CORBA::Container::DescriptionSeq_var list = container->describe_contents(CORBA::dk_all, true, -1);
  for (CORBA::ULong i = 0; i < list->length(); i++) {
    CORBA::Contained_ptr contained = list[i].contained_object;
    CORBA::String_var id = contained->id();
    std::printf("%s %s\n", (const char *) id, kinds[list[i].kind]);
    CORBA::Container_var inner = CORBA::Container::_narrow(contained);
    if (!CORBA::is_nil(inner)) walk(inner);
  }
}

static void describe(CORBA::InterfaceDef_ptr interface)
{
  CORBA::InterfaceDef::FullInterfaceDescription_var full = interface->describe_interface();
  for (CORBA::ULong i = 0; i < full->operations.length(); i++) {
    const CORBA::OperationDescription &op = full->operations[i];
    std::printf("op %s %d", (const char *) op.name, (int) op.result->kind());
    for (CORBA::ULong k = 0; k < op.parameters.length(); k++)
      std::printf(" %s:%d:%d", (const char *) op.parameters[k].name, (int) op.parameters[k].mode, (int) op.parameters[k].type->kind());
    for (CORBA::ULong k = 0; k < op.exceptions.length(); k++) std::printf(" !%s", (const char *) op.exceptions[k].id);
    std::printf("\n");
  }
}

static void call(CORBA::Object_ptr object)
{
  CORBA::Request_var request = object->_request("swap");
  request->add_in_arg("a") <<= (CORBA::Long) 40;
  request->add_inout_arg("b") <<= "text";
  request->add_out_arg("c") <<= (CORBA::Double) 0;
  request->set_return_type(CORBA::_tc_long);
  request->invoke();
  CORBA::Long result = 0;
  const char *text = "";
  CORBA::Double number = 0;
  request->return_value() >>= result;
  *request->arguments()->item(1)->value() >>= text;
  *request->arguments()->item(2)->value() >>= number;
  std::printf("called %d %s %g\n", (int) result, text, (double) number);
}

int main(int argc, char **argv)
{
  try {
    CORBA::ORB_var orb = CORBA::ORB_init(argc, argv);
    CORBA::Object_var object = orb->string_to_object(argv[1]);
    CORBA::InterfaceDef_var interface = object->_get_interface();
    if (CORBA::is_nil(interface)) return std::printf("no interface\n"), 1;
    describe(interface);
    CORBA::Repository_var repository = interface->containing_repository();
    walk(repository);
    call(object);
    try {
      interface->destroy();
      std::printf("not refused\n");
    } catch (CORBA::NO_PERMISSION &) {
      std::printf("refused\n");
    }
    orb->destroy();
    return 0;
  } catch (CORBA::SystemException &e) {
    std::printf("%s minor 0x%x\n", e._name(), (unsigned) e.minor());
  } catch (CORBA::Exception &e) {
    std::printf("%s\n", e._name());
  }
  return 1;
}
