// A client of event channels over omniORB, for tests and benchmarks.
//
//   client push CHANNEL N [THREADS]     pushes longs 1 … N, each of THREADS suppliers N of them; prints how long that took
//   client listen CHANNEL N             a push consumer: prints "ready", then each of N longs (or only the last, with N > 1000), and how long they took
//   client supply CHANNEL N             a pull supplier with longs 1 … N; ends when they have been asked for
//   client pull CHANNEL N               a pull consumer: pulls N longs and prints them
//   client notify CHANNEL N             pushes N structured events: domain Rail, type Alarm or Note by turns, name eI, severity = I
//   client filter CHANNEL N CONSTRAINT  a structured push consumer with a filter: prints "ready", then names of N events
//   client consumers CHANNEL N COUNT    N push consumers, of which each wants COUNT events: prints "ready", "done" with the seconds
//   client refused CHANNEL              what is raised: names of exceptions
#include <omniORB4/CORBA.h>
#include <COS/CosEventChannelAdmin.hh>
#include <COS/CosNotifyChannelAdmin.hh>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <condition_variable>
#include <string>
#include <thread>
#include <vector>

using namespace std;
namespace Admin = CosEventChannelAdmin;
namespace Notify = CosNotifyChannelAdmin;

static CORBA::ORB_var orb;
static PortableServer::POA_var poa;
static mutex lock_;
static condition_variable changed;
static long seen = 0;                          // events, under lock_
static chrono::steady_clock::time_point first;

static double since(chrono::steady_clock::time_point t) { return chrono::duration<double>(chrono::steady_clock::now() - t).count(); }

static void wait_for(long n) {
  unique_lock<mutex> l(lock_);
  changed.wait(l, [n] { return seen >= n; });
}

static void count() {
  lock_guard<mutex> l(lock_);
  if (seen++ == 0) first = chrono::steady_clock::now();
  changed.notify_all();
}

static void say(const string &text) {
  lock_guard<mutex> l(lock_);
  cout << text << endl;
}

struct Consumer : POA_CosEventComm::PushConsumer {
  bool quiet;
  explicit Consumer(bool q) : quiet(q) {}
  void push(const CORBA::Any &data) override {
    CORBA::Long n = -1;
    data >>= n;
    if (!quiet) say(to_string(n));
    count();
  }
  void disconnect_push_consumer() override { say("disconnected"); }
};

struct Source : POA_CosEventComm::PullSupplier {
  long next = 0, last;
  explicit Source(long n) : last(n) {}
  CORBA::Any *pull() override {
    CORBA::Boolean has;
    CORBA::Any *a = try_pull(has);
    if (has) return a;
    delete a;
    throw CORBA::TRANSIENT(0, CORBA::COMPLETED_NO);
  }
  CORBA::Any *try_pull(CORBA::Boolean &has) override {
    CORBA::Any *a = new CORBA::Any;
    has = next < last;
    *a <<= (CORBA::Long)(has ? ++next : 0);
    if (has) count();
    return a;
  }
  void disconnect_pull_supplier() override { say("disconnected"); }
};

struct StructuredConsumer : POA_CosNotifyComm::StructuredPushConsumer {
  void push_structured_event(const CosNotification::StructuredEvent &e) override {
    say(string(e.header.fixed_header.event_name));
    count();
  }
  void disconnect_structured_push_consumer() override { say("disconnected"); }
  void offer_change(const CosNotification::EventTypeSeq &, const CosNotification::EventTypeSeq &) override {}
};

template <class T> static typename T::_ptr_type find(const char *text) {
  CORBA::Object_var object = orb->string_to_object(text);
  typename T::_ptr_type found = T::_narrow(object);
  if (CORBA::is_nil(found)) { cerr << "no such channel" << endl; exit(1); }
  return found;
}

static Admin::ProxyPushConsumer_ptr supplier(Admin::EventChannel_ptr channel) {
  Admin::SupplierAdmin_var admin = channel->for_suppliers();
  Admin::ProxyPushConsumer_var proxy = admin->obtain_push_consumer();
  proxy->connect_push_supplier(CosEventComm::PushSupplier::_nil());
  return proxy._retn();
}

static void push(const char *where, long n, int threads) {
  Admin::EventChannel_var channel = find<Admin::EventChannel>(where);
  vector<thread> list;
  auto begin = chrono::steady_clock::now();
  for (int t = 0; t < threads; t++) list.emplace_back([&] {
    Admin::ProxyPushConsumer_var proxy = supplier(channel);
    for (long i = 1; i <= n; i++) {
      CORBA::Any a;
      a <<= (CORBA::Long)i;
      proxy->push(a);
    }
    proxy->disconnect_push_consumer();
  });
  for (auto &t : list) t.join();
  cout << "pushed " << n * threads << " in " << since(begin) << endl;
}

static Admin::ProxyPushSupplier_ptr listen_with(Admin::EventChannel_ptr channel, Consumer *servant) {
  Admin::ConsumerAdmin_var admin = channel->for_consumers();
  Admin::ProxyPushSupplier_var proxy = admin->obtain_push_supplier();
  CosEventComm::PushConsumer_var me = servant->_this();
  proxy->connect_push_consumer(me);
  return proxy._retn();
}

static void listen(const char *where, long n) {
  Admin::EventChannel_var channel = find<Admin::EventChannel>(where);
  Admin::ProxyPushSupplier_var proxy = listen_with(channel, new Consumer(n > 1000));
  say("ready");
  wait_for(n);
  cout << "heard " << n << " in " << since(first) << endl;
  proxy->disconnect_push_supplier();
}

static void consumers(const char *where, long n, long each) {
  Admin::EventChannel_var channel = find<Admin::EventChannel>(where);
  for (long i = 0; i < n; i++) Admin::ProxyPushSupplier_var p = listen_with(channel, new Consumer(true));
  say("ready");
  wait_for(n * each);
  cout << "done in " << since(first) << endl;
}

static void supply(const char *where, long n) {
  Admin::EventChannel_var channel = find<Admin::EventChannel>(where);
  Admin::SupplierAdmin_var admin = channel->for_suppliers();
  Admin::ProxyPullConsumer_var proxy = admin->obtain_pull_consumer();
  CosEventComm::PullSupplier_var me = (new Source(n))->_this();
  proxy->connect_pull_supplier(me);
  wait_for(n);
  proxy->disconnect_pull_consumer();
  say("supplied");
}

static void pull(const char *where, long n) {
  Admin::EventChannel_var channel = find<Admin::EventChannel>(where);
  Admin::ConsumerAdmin_var admin = channel->for_consumers();
  Admin::ProxyPullSupplier_var proxy = admin->obtain_pull_supplier();
  proxy->connect_pull_consumer(CosEventComm::PullConsumer::_nil());
  say("ready");
  for (long i = 0; i < n; i++) {
    CORBA::Any_var a = proxy->pull();
    CORBA::Long value = -1;
    a >>= value;
    say(to_string(value));
  }
  CORBA::Boolean has;
  CORBA::Any_var rest = proxy->try_pull(has);
  say(has ? "more" : "no more");
  proxy->disconnect_pull_supplier();
}

static void notify(const char *where, long n) {
  Notify::EventChannel_var channel = find<Notify::EventChannel>(where);
  Notify::SupplierAdmin_var admin = channel->default_supplier_admin();
  Notify::ProxyID id;
  Notify::ProxyConsumer_var base = admin->obtain_notification_push_consumer(Notify::STRUCTURED_EVENT, id);
  Notify::StructuredProxyPushConsumer_var proxy = Notify::StructuredProxyPushConsumer::_narrow(base);
  proxy->connect_structured_push_supplier(CosNotifyComm::StructuredPushSupplier::_nil());
  for (long i = 1; i <= n; i++) {
    CosNotification::StructuredEvent e;
    e.header.fixed_header.event_type.domain_name = "Rail";
    e.header.fixed_header.event_type.type_name = i % 2 ? "Alarm" : "Note";
    e.header.fixed_header.event_name = ("e" + to_string(i)).c_str();
    e.filterable_data.length(2);
    e.filterable_data[0].name = "severity";
    e.filterable_data[0].value <<= (CORBA::Long)i;
    e.filterable_data[1].name = "place";
    e.filterable_data[1].value <<= "Ulm";
    proxy->push_structured_event(e);
  }
  proxy->disconnect_structured_push_consumer();
}

static void filter(const char *where, long n, const char *constraint) {
  Notify::EventChannel_var channel = find<Notify::EventChannel>(where);
  CosNotifyFilter::FilterFactory_var factory = channel->default_filter_factory();
  CosNotifyFilter::Filter_var f = factory->create_filter("EXTENDED_TCL");
  CosNotifyFilter::ConstraintExpSeq list;
  list.length(1);
  list[0].constraint_expr = constraint;
  try {
    CosNotifyFilter::ConstraintInfoSeq_var infos = f->add_constraints(list);
  } catch (CosNotifyFilter::InvalidConstraint &e) {
    cout << e.constr.constraint_expr << endl;
    return;
  }
  Notify::ConsumerAdmin_var admin = channel->default_consumer_admin();
  Notify::ProxyID id;
  Notify::ProxySupplier_var base = admin->obtain_notification_push_supplier(Notify::STRUCTURED_EVENT, id);
  Notify::StructuredProxyPushSupplier_var proxy = Notify::StructuredProxyPushSupplier::_narrow(base);
  proxy->add_filter(f);
  CosNotifyComm::StructuredPushConsumer_var me = (new StructuredConsumer)->_this();
  proxy->connect_structured_push_consumer(me);
  say("ready");
  wait_for(n);
  proxy->disconnect_structured_push_supplier();
  f->destroy();
}

template <class F> static void raises(F f) {
  try { f(); say("nothing"); }
  catch (CORBA::Exception &e) { say(e._name()); }
}

static void refused(const char *where) {
  Admin::EventChannel_var channel = find<Admin::EventChannel>(where);
  Admin::ConsumerAdmin_var consumers = channel->for_consumers();
  Admin::SupplierAdmin_var suppliers = channel->for_suppliers();
  Admin::ProxyPushSupplier_var ps = consumers->obtain_push_supplier();
  Admin::ProxyPullSupplier_var pl = consumers->obtain_pull_supplier();
  Admin::ProxyPushConsumer_var pc = suppliers->obtain_push_consumer();
  CORBA::Any a;
  a <<= (CORBA::Long)1;
  raises([&] { pc->push(a); });
  raises([&] { CORBA::Any_var got = pl->pull(); });
  raises([&] { ps->connect_push_consumer(CosEventComm::PushConsumer::_nil()); });
  pc->connect_push_supplier(CosEventComm::PushSupplier::_nil());
  raises([&] { pc->connect_push_supplier(CosEventComm::PushSupplier::_nil()); });
  pc->disconnect_push_consumer();
  raises([&] { pc->push(a); });
}

int main(int argc, char **argv) {
  try {
    orb = CORBA::ORB_init(argc, argv);
    CORBA::Object_var root = orb->resolve_initial_references("RootPOA");
    poa = PortableServer::POA::_narrow(root);
    PortableServer::POAManager_var manager = poa->the_POAManager();
    manager->activate();
    string what = argc > 2 ? argv[1] : "";
    const char *where = argc > 2 ? argv[2] : "";
    long n = argc > 3 ? atol(argv[3]) : 0;
    if (what == "push") push(where, n, argc > 4 ? atoi(argv[4]) : 1);
    else if (what == "listen") listen(where, n);
    else if (what == "supply") supply(where, n);
    else if (what == "pull") pull(where, n);
    else if (what == "notify") notify(where, n);
    else if (what == "filter" && argc > 4) filter(where, n, argv[4]);
    else if (what == "consumers" && argc > 4) consumers(where, n, atol(argv[4]));
    else if (what == "refused") refused(where);
    else { cerr << "see the head of the source" << endl; return 2; }
    orb->destroy();
    return 0;
  } catch (CORBA::Exception &e) {
    cerr << e._name() << endl;
    return 1;
  }
}
