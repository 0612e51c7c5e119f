--[[
mare.orb.services.events.idl: the IDL of OMG's event service (1.2) and of the notification service (1.1), and what clients of omniEvents call of its
factory. A table of file names and texts; `#include <CosEventComm.idl>` finds them.

Of the notification service all interfaces are here, so that a narrow finds what a client asks for. The service has no mapping filters, no sequences
of events, and tells nobody of changes of types or filters; what would need them answers NO_IMPLEMENT, and says why:
  FilterFactory::create_mapping_filter; setting priority_filter and lifetime_filter
  obtain_notification_…_supplier and …_consumer for SEQUENCE_EVENT
  obtain_subscription_types and obtain_offered_types with …_UPDATES_ON; Filter::attach_callback
MareEvents is mare's own: what `mare events ls` shows.
]]
local idl = {}

idl["CosEventComm.idl"] = [[
#ifndef MARE_COSEVENTCOMM_IDL
#define MARE_COSEVENTCOMM_IDL
#pragma prefix "omg.org"
module CosEventComm {
  exception Disconnected {};
  interface PushConsumer { void push(in any data) raises(Disconnected); void disconnect_push_consumer(); };
  interface PushSupplier { void disconnect_push_supplier(); };
  interface PullSupplier {
    any pull() raises(Disconnected);
    any try_pull(out boolean has_event) raises(Disconnected);
    void disconnect_pull_supplier();
  };
  interface PullConsumer { void disconnect_pull_consumer(); };
};
#endif
]]

idl["CosEventChannelAdmin.idl"] = [[
#ifndef MARE_COSEVENTCHANNELADMIN_IDL
#define MARE_COSEVENTCHANNELADMIN_IDL
#include <CosEventComm.idl>
#pragma prefix "omg.org"
module CosEventChannelAdmin {
  exception AlreadyConnected {};
  exception TypeError {};
  interface ProxyPushConsumer : CosEventComm::PushConsumer {
    void connect_push_supplier(in CosEventComm::PushSupplier push_supplier) raises(AlreadyConnected);
  };
  interface ProxyPullSupplier : CosEventComm::PullSupplier {
    void connect_pull_consumer(in CosEventComm::PullConsumer pull_consumer) raises(AlreadyConnected);
  };
  interface ProxyPullConsumer : CosEventComm::PullConsumer {
    void connect_pull_supplier(in CosEventComm::PullSupplier pull_supplier) raises(AlreadyConnected, TypeError);
  };
  interface ProxyPushSupplier : CosEventComm::PushSupplier {
    void connect_push_consumer(in CosEventComm::PushConsumer push_consumer) raises(AlreadyConnected, TypeError);
  };
  interface ConsumerAdmin { ProxyPushSupplier obtain_push_supplier(); ProxyPullSupplier obtain_pull_supplier(); };
  interface SupplierAdmin { ProxyPushConsumer obtain_push_consumer(); ProxyPullConsumer obtain_pull_consumer(); };
  interface EventChannel { ConsumerAdmin for_consumers(); SupplierAdmin for_suppliers(); void destroy(); };
};
#endif
]]

idl["CosNotification.idl"] = [[
#ifndef MARE_COSNOTIFICATION_IDL
#define MARE_COSNOTIFICATION_IDL
#pragma prefix "omg.org"
module CosNotification {
  typedef string Istring;
  typedef Istring PropertyName;
  typedef any PropertyValue;
  struct Property { PropertyName name; PropertyValue value; };
  typedef sequence<Property> PropertySeq;
  typedef PropertySeq OptionalHeaderFields;
  typedef PropertySeq FilterableEventBody;
  typedef PropertySeq QoSProperties;
  typedef PropertySeq AdminProperties;
  struct _EventType { string domain_name; string type_name; };
  typedef sequence<_EventType> EventTypeSeq;
  struct PropertyRange { PropertyValue low_val; PropertyValue high_val; };
  struct NamedPropertyRange { PropertyName name; PropertyRange range; };
  typedef sequence<NamedPropertyRange> NamedPropertyRangeSeq;
  enum QoSError_code { UNSUPPORTED_PROPERTY, UNAVAILABLE_PROPERTY, UNSUPPORTED_VALUE, UNAVAILABLE_VALUE, BAD_PROPERTY, BAD_TYPE, BAD_VALUE };
  struct PropertyError { QoSError_code code; PropertyName name; PropertyRange available_range; };
  typedef sequence<PropertyError> PropertyErrorSeq;
  exception UnsupportedQoS { PropertyErrorSeq qos_err; };
  exception UnsupportedAdmin { PropertyErrorSeq admin_err; };
  struct FixedEventHeader { _EventType event_type; string event_name; };
  struct EventHeader { FixedEventHeader fixed_header; OptionalHeaderFields variable_header; };
  struct StructuredEvent { EventHeader header; FilterableEventBody filterable_data; any remainder_of_body; };
  typedef sequence<StructuredEvent> EventBatch;
  const string EventReliability = "EventReliability";
  const short BestEffort = 0;
  const short Persistent = 1;
  const string ConnectionReliability = "ConnectionReliability";
  const string Priority = "Priority";
  const short LowestPriority = -32767;
  const short HighestPriority = 32767;
  const short DefaultPriority = 0;
  const string StartTime = "StartTime";
  const string StopTime = "StopTime";
  const string Timeout = "Timeout";
  const string OrderPolicy = "OrderPolicy";
  const short AnyOrder = 0;
  const short FifoOrder = 1;
  const short PriorityOrder = 2;
  const short DeadlineOrder = 3;
  const string DiscardPolicy = "DiscardPolicy";
  const short LifoOrder = 4;
  const string MaximumBatchSize = "MaximumBatchSize";
  const string PacingInterval = "PacingInterval";
  const string StartTimeSupported = "StartTimeSupported";
  const string StopTimeSupported = "StopTimeSupported";
  const string MaxEventsPerConsumer = "MaxEventsPerConsumer";
  interface QoSAdmin {
    QoSProperties get_qos();
    void set_qos(in QoSProperties qos) raises(UnsupportedQoS);
    void validate_qos(in QoSProperties required_qos, out NamedPropertyRangeSeq available_qos) raises(UnsupportedQoS);
  };
  const string MaxQueueLength = "MaxQueueLength";
  const string MaxConsumers = "MaxConsumers";
  const string MaxSuppliers = "MaxSuppliers";
  const string RejectNewEvents = "RejectNewEvents";
  interface AdminPropertiesAdmin {
    AdminProperties get_admin();
    void set_admin(in AdminProperties admin) raises(UnsupportedAdmin);
  };
};
#endif
]]

idl["CosNotifyComm.idl"] = [[
#ifndef MARE_COSNOTIFYCOMM_IDL
#define MARE_COSNOTIFYCOMM_IDL
#include <CosNotification.idl>
#include <CosEventComm.idl>
#pragma prefix "omg.org"
module CosNotifyComm {
  exception InvalidEventType { CosNotification::_EventType type; };
  interface NotifyPublish {
    void offer_change(in CosNotification::EventTypeSeq added, in CosNotification::EventTypeSeq removed) raises(InvalidEventType);
  };
  interface NotifySubscribe {
    void subscription_change(in CosNotification::EventTypeSeq added, in CosNotification::EventTypeSeq removed) raises(InvalidEventType);
  };
  interface PushConsumer : NotifyPublish, CosEventComm::PushConsumer {};
  interface PullConsumer : NotifyPublish, CosEventComm::PullConsumer {};
  interface PullSupplier : NotifySubscribe, CosEventComm::PullSupplier {};
  interface PushSupplier : NotifySubscribe, CosEventComm::PushSupplier {};
  interface StructuredPushConsumer : NotifyPublish {
    void push_structured_event(in CosNotification::StructuredEvent notification) raises(CosEventComm::Disconnected);
    void disconnect_structured_push_consumer();
  };
  interface StructuredPullConsumer : NotifyPublish { void disconnect_structured_pull_consumer(); };
  interface StructuredPullSupplier : NotifySubscribe {
    CosNotification::StructuredEvent pull_structured_event() raises(CosEventComm::Disconnected);
    CosNotification::StructuredEvent try_pull_structured_event(out boolean has_event) raises(CosEventComm::Disconnected);
    void disconnect_structured_pull_supplier();
  };
  interface StructuredPushSupplier : NotifySubscribe { void disconnect_structured_push_supplier(); };
  interface SequencePushConsumer : NotifyPublish {
    void push_structured_events(in CosNotification::EventBatch notifications) raises(CosEventComm::Disconnected);
    void disconnect_sequence_push_consumer();
  };
  interface SequencePullConsumer : NotifyPublish { void disconnect_sequence_pull_consumer(); };
  interface SequencePullSupplier : NotifySubscribe {
    CosNotification::EventBatch pull_structured_events(in long max_number) raises(CosEventComm::Disconnected);
    CosNotification::EventBatch try_pull_structured_events(in long max_number, out boolean has_event) raises(CosEventComm::Disconnected);
    void disconnect_sequence_pull_supplier();
  };
  interface SequencePushSupplier : NotifySubscribe { void disconnect_sequence_push_supplier(); };
};
#endif
]]

idl["CosNotifyFilter.idl"] = [[
#ifndef MARE_COSNOTIFYFILTER_IDL
#define MARE_COSNOTIFYFILTER_IDL
#include <CosNotifyComm.idl>
#pragma prefix "omg.org"
module CosNotifyFilter {
  typedef long ConstraintID;
  struct ConstraintExp { CosNotification::EventTypeSeq event_types; string constraint_expr; };
  typedef sequence<ConstraintID> ConstraintIDSeq;
  typedef sequence<ConstraintExp> ConstraintExpSeq;
  struct ConstraintInfo { ConstraintExp constraint_expression; ConstraintID constraint_id; };
  typedef sequence<ConstraintInfo> ConstraintInfoSeq;
  struct MappingConstraintPair { ConstraintExp constraint_expression; any result_to_set; };
  typedef sequence<MappingConstraintPair> MappingConstraintPairSeq;
  struct MappingConstraintInfo { ConstraintExp constraint_expression; ConstraintID constraint_id; any value; };
  typedef sequence<MappingConstraintInfo> MappingConstraintInfoSeq;
  typedef long CallbackID;
  typedef sequence<CallbackID> CallbackIDSeq;
  exception UnsupportedFilterableData {};
  exception InvalidGrammar {};
  exception InvalidConstraint { ConstraintExp constr; };
  exception DuplicateConstraintID { ConstraintID id; };
  exception ConstraintNotFound { ConstraintID id; };
  exception CallbackNotFound {};
  exception InvalidValue { ConstraintExp constr; any value; };
  interface Filter {
    readonly attribute string constraint_grammar;
    ConstraintInfoSeq add_constraints(in ConstraintExpSeq constraint_list) raises(InvalidConstraint);
    void modify_constraints(in ConstraintIDSeq del_list, in ConstraintInfoSeq modify_list) raises(InvalidConstraint, ConstraintNotFound);
    ConstraintInfoSeq get_constraints(in ConstraintIDSeq id_list) raises(ConstraintNotFound);
    ConstraintInfoSeq get_all_constraints();
    void remove_all_constraints();
    void destroy();
    boolean match(in any filterable_data) raises(UnsupportedFilterableData);
    boolean match_structured(in CosNotification::StructuredEvent filterable_data) raises(UnsupportedFilterableData);
    boolean match_typed(in CosNotification::PropertySeq filterable_data) raises(UnsupportedFilterableData);
    CallbackID attach_callback(in CosNotifyComm::NotifySubscribe callback);
    void detach_callback(in CallbackID callback) raises(CallbackNotFound);
    CallbackIDSeq get_callbacks();
  };
  interface MappingFilter {
    readonly attribute string constraint_grammar;
    readonly attribute CORBA::TypeCode value_type;
    readonly attribute any default_value;
    MappingConstraintInfoSeq add_mapping_constraints(in MappingConstraintPairSeq pair_list) raises(InvalidConstraint, InvalidValue);
    void modify_mapping_constraints(in ConstraintIDSeq del_list, in MappingConstraintInfoSeq modify_list)
      raises(InvalidConstraint, InvalidValue, ConstraintNotFound);
    MappingConstraintInfoSeq get_mapping_constraints(in ConstraintIDSeq id_list) raises(ConstraintNotFound);
    MappingConstraintInfoSeq get_all_mapping_constraints();
    void remove_all_mapping_constraints();
    void destroy();
    boolean match(in any filterable_data, out any result_to_set) raises(UnsupportedFilterableData);
    boolean match_structured(in CosNotification::StructuredEvent filterable_data, out any result_to_set) raises(UnsupportedFilterableData);
    boolean match_typed(in CosNotification::PropertySeq filterable_data, out any result_to_set) raises(UnsupportedFilterableData);
  };
  interface FilterFactory {
    Filter create_filter(in string constraint_grammar) raises(InvalidGrammar);
    MappingFilter create_mapping_filter(in string constraint_grammar, in any default_value) raises(InvalidGrammar);
  };
  typedef long FilterID;
  typedef sequence<FilterID> FilterIDSeq;
  exception FilterNotFound {};
  interface FilterAdmin {
    FilterID add_filter(in Filter new_filter);
    void remove_filter(in FilterID filter) raises(FilterNotFound);
    Filter get_filter(in FilterID filter) raises(FilterNotFound);
    FilterIDSeq get_all_filters();
    void remove_all_filters();
  };
};
#endif
]]

-- The proxies of events one by one: of any, structured, in sequences.
local function proxies()
  local text = {}
  for _, kind in ipairs { { "", "any" }, { "Structured", "structured" }, { "Sequence", "sequence" } } do
    local name, word = table.unpack(kind)
    local function one(proxy, base, comm, operation, peer, raises, more)
      local module = name == "" and "CosEventComm" or "CosNotifyComm"
      text[#text + 1] = ("  interface %s%s : %s, CosNotifyComm::%s%s {\n"):format(name, proxy, base, name, comm)
      text[#text + 1] = ("    void connect_%s_%s(in %s::%s%s client) raises(%s);\n"):format(word, operation, module, name, peer, raises)
      text[#text + 1] = (more or "") .. "  };\n"
    end
    local connected = "CosEventChannelAdmin::AlreadyConnected"
    local typed = connected .. ", CosEventChannelAdmin::TypeError"
    local pause = "    void suspend_connection() raises(ConnectionAlreadyInactive, NotConnected);\n" ..
      "    void resume_connection() raises(ConnectionAlreadyActive, NotConnected);\n"
    one("ProxyPushConsumer", "ProxyConsumer", "PushConsumer", "push_supplier", "PushSupplier", connected)
    one("ProxyPullSupplier", "ProxySupplier", "PullSupplier", "pull_consumer", "PullConsumer", connected)
    one("ProxyPullConsumer", "ProxyConsumer", "PullConsumer", "pull_supplier", "PullSupplier", typed, pause)
    one("ProxyPushSupplier", "ProxySupplier", "PushSupplier", "push_consumer", "PushConsumer", typed, pause)
  end
  return table.concat(text)
end

idl["CosNotifyChannelAdmin.idl"] = [[
#ifndef MARE_COSNOTIFYCHANNELADMIN_IDL
#define MARE_COSNOTIFYCHANNELADMIN_IDL
#include <CosNotification.idl>
#include <CosNotifyFilter.idl>
#include <CosNotifyComm.idl>
#include <CosEventChannelAdmin.idl>
#pragma prefix "omg.org"
module CosNotifyChannelAdmin {
  exception ConnectionAlreadyActive {};
  exception ConnectionAlreadyInactive {};
  exception NotConnected {};
  interface ConsumerAdmin;
  interface SupplierAdmin;
  interface EventChannel;
  interface EventChannelFactory;
  enum ProxyType { PUSH_ANY, PULL_ANY, PUSH_STRUCTURED, PULL_STRUCTURED, PUSH_SEQUENCE, PULL_SEQUENCE, PUSH_TYPED, PULL_TYPED };
  enum ObtainInfoMode { ALL_NOW_UPDATES_OFF, ALL_NOW_UPDATES_ON, NONE_NOW_UPDATES_OFF, NONE_NOW_UPDATES_ON };
  interface ProxyConsumer : CosNotification::QoSAdmin, CosNotifyFilter::FilterAdmin {
    readonly attribute ProxyType MyType;
    readonly attribute SupplierAdmin MyAdmin;
    CosNotification::EventTypeSeq obtain_subscription_types(in ObtainInfoMode mode);
    void validate_event_qos(in CosNotification::QoSProperties required_qos, out CosNotification::NamedPropertyRangeSeq available_qos)
      raises(CosNotification::UnsupportedQoS);
  };
  interface ProxySupplier : CosNotification::QoSAdmin, CosNotifyFilter::FilterAdmin {
    readonly attribute ProxyType MyType;
    readonly attribute ConsumerAdmin MyAdmin;
    attribute CosNotifyFilter::MappingFilter priority_filter;
    attribute CosNotifyFilter::MappingFilter lifetime_filter;
    CosNotification::EventTypeSeq obtain_offered_types(in ObtainInfoMode mode);
    void validate_event_qos(in CosNotification::QoSProperties required_qos, out CosNotification::NamedPropertyRangeSeq available_qos)
      raises(CosNotification::UnsupportedQoS);
  };
]] .. proxies() .. [[
  typedef long ProxyID;
  typedef sequence<ProxyID> ProxyIDSeq;
  enum ClientType { ANY_EVENT, STRUCTURED_EVENT, SEQUENCE_EVENT };
  enum InterFilterGroupOperator { AND_OP, OR_OP };
  typedef long AdminID;
  typedef sequence<AdminID> AdminIDSeq;
  exception AdminNotFound {};
  exception ProxyNotFound {};
  struct AdminLimit { CosNotification::PropertyName name; CosNotification::PropertyValue value; };
  exception AdminLimitExceeded { AdminLimit admin_property_err; };
  interface ConsumerAdmin : CosNotification::QoSAdmin, CosNotifyComm::NotifySubscribe, CosNotifyFilter::FilterAdmin,
                            CosEventChannelAdmin::ConsumerAdmin {
    readonly attribute AdminID MyID;
    readonly attribute EventChannel MyChannel;
    readonly attribute InterFilterGroupOperator MyOperator;
    attribute CosNotifyFilter::MappingFilter priority_filter;
    attribute CosNotifyFilter::MappingFilter lifetime_filter;
    readonly attribute ProxyIDSeq pull_suppliers;
    readonly attribute ProxyIDSeq push_suppliers;
    ProxySupplier get_proxy_supplier(in ProxyID proxy_id) raises(ProxyNotFound);
    ProxySupplier obtain_notification_pull_supplier(in ClientType ctype, out ProxyID proxy_id) raises(AdminLimitExceeded);
    ProxySupplier obtain_notification_push_supplier(in ClientType ctype, out ProxyID proxy_id) raises(AdminLimitExceeded);
    void destroy();
  };
  interface SupplierAdmin : CosNotification::QoSAdmin, CosNotifyComm::NotifyPublish, CosNotifyFilter::FilterAdmin,
                            CosEventChannelAdmin::SupplierAdmin {
    readonly attribute AdminID MyID;
    readonly attribute EventChannel MyChannel;
    readonly attribute InterFilterGroupOperator MyOperator;
    readonly attribute ProxyIDSeq pull_consumers;
    readonly attribute ProxyIDSeq push_consumers;
    ProxyConsumer get_proxy_consumer(in ProxyID proxy_id) raises(ProxyNotFound);
    ProxyConsumer obtain_notification_pull_consumer(in ClientType ctype, out ProxyID proxy_id) raises(AdminLimitExceeded);
    ProxyConsumer obtain_notification_push_consumer(in ClientType ctype, out ProxyID proxy_id) raises(AdminLimitExceeded);
    void destroy();
  };
  interface EventChannel : CosNotification::QoSAdmin, CosNotification::AdminPropertiesAdmin, CosEventChannelAdmin::EventChannel {
    readonly attribute EventChannelFactory MyFactory;
    readonly attribute ConsumerAdmin default_consumer_admin;
    readonly attribute SupplierAdmin default_supplier_admin;
    readonly attribute CosNotifyFilter::FilterFactory default_filter_factory;
    ConsumerAdmin new_for_consumers(in InterFilterGroupOperator op, out AdminID id);
    SupplierAdmin new_for_suppliers(in InterFilterGroupOperator op, out AdminID id);
    ConsumerAdmin get_consumeradmin(in AdminID id) raises(AdminNotFound);
    SupplierAdmin get_supplieradmin(in AdminID id) raises(AdminNotFound);
    AdminIDSeq get_all_consumeradmins();
    AdminIDSeq get_all_supplieradmins();
  };
  typedef long ChannelID;
  typedef sequence<ChannelID> ChannelIDSeq;
  exception ChannelNotFound {};
  interface EventChannelFactory {
    EventChannel create_channel(in CosNotification::QoSProperties initial_qos, in CosNotification::AdminProperties initial_admin,
                                out ChannelID id) raises(CosNotification::UnsupportedQoS, CosNotification::UnsupportedAdmin);
    ChannelIDSeq get_all_channels();
    EventChannel get_event_channel(in ChannelID id) raises(ChannelNotFound);
  };
};
#endif
]]

idl["CosLifeCycle.idl"] = [[
#ifndef MARE_COSLIFECYCLE_IDL
#define MARE_COSLIFECYCLE_IDL
#include <CosNaming.idl>
#pragma prefix "omg.org"
module CosLifeCycle {
  typedef CosNaming::Name Key;
  typedef Object _Factory;
  typedef sequence<_Factory> Factories;
  typedef struct NVP { CosNaming::Istring name; any value; } NameValuePair;
  typedef sequence<NameValuePair> Criteria;
  exception NoFactory { Key search_key; };
  exception NotCopyable { string reason; };
  exception NotMovable { string reason; };
  exception NotRemovable { string reason; };
  exception InvalidCriteria { Criteria invalid_criteria; };
  exception CannotMeetCriteria { Criteria unmet_criteria; };
  interface FactoryFinder { Factories find_factories(in Key factory_key) raises(NoFactory); };
  interface LifeCycleObject {
    LifeCycleObject copy(in FactoryFinder there, in Criteria the_criteria) raises(NoFactory, NotCopyable, InvalidCriteria, CannotMeetCriteria);
    void move(in FactoryFinder there, in Criteria the_criteria) raises(NoFactory, NotMovable, InvalidCriteria, CannotMeetCriteria);
    void remove() raises(NotRemovable);
  };
  interface GenericFactory {
    boolean _supports(in Key k);
    Object create_object(in Key k, in Criteria the_criteria) raises(NoFactory, InvalidCriteria, CannotMeetCriteria);
  };
};
#endif
]]

idl["omniEvents.idl"] = [[
#ifndef MARE_OMNIEVENTS_IDL
#define MARE_OMNIEVENTS_IDL
#include <CosNotifyChannelAdmin.idl>
#include <CosLifeCycle.idl>
#pragma prefix "openorb.org"
module event {
  exception NameAlreadyUsed {};
  exception EventChannelNotFound {};
  interface EventChannelFactory {
    CosEventChannelAdmin::EventChannel create_channel(in string channel_name) raises(NameAlreadyUsed);
    CosEventChannelAdmin::EventChannel join_channel(in string channel_name) raises(EventChannelNotFound);
  };
};
#pragma prefix "omg.org"
module FT {
  interface PullMonitorable { boolean is_alive(); };
};
#pragma prefix ""
module EventChannelAdmin {
  interface EventChannelFactory : CosLifeCycle::GenericFactory {};
};
#pragma prefix "omni"
module omniEvents {
  interface EventChannel : CosEventChannelAdmin::EventChannel, FT::PullMonitorable {};
  interface EventChannelFactory : CosLifeCycle::GenericFactory, FT::PullMonitorable, EventChannelAdmin::EventChannelFactory,
                                  event::EventChannelFactory {};
};
#endif
]]

idl["MareEvents.idl"] = [[
#ifndef MARE_EVENTS_IDL
#define MARE_EVENTS_IDL
#include <omniEvents.idl>
#pragma prefix ""
module MareEvents {
  struct Channel {
    string name; unsigned long suppliers; unsigned long consumers; unsigned long waiting;
    unsigned long long received; unsigned long long delivered; unsigned long long discarded; unsigned long long dropped;
    CosNotifyChannelAdmin::EventChannel reference;
  };
  typedef sequence<Channel> Channels;
  interface EventChannel : CosNotifyChannelAdmin::EventChannel, omniEvents::EventChannel {};
  interface Factory : omniEvents::EventChannelFactory { Channels list(); };
};
#endif
]]

return idl
