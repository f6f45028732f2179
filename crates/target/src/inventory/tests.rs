//! Inventories on null devices: what is refused, what changes, and who hears of it.

use super::*;
use weft_base::lock::Lock;
use weft_block::{OpenOptions, Presence, open};
use weft_connection::limits::HOST_LIMITS_MAX;

fn nqn(name: &str) -> Nqn {
    Nqn::new(&format!("nqn.2014-08.org.example:{name}")).unwrap()
}

fn device(blocks: u64) -> Arc<dyn BlockDevice> {
    open(&format!("null:{}", blocks * 512), &OpenOptions::default()).unwrap()
}

fn config(blocks: u64) -> NamespaceConfig {
    NamespaceConfig::new(device(blocks))
}

fn uuid(n: u8) -> Uuid {
    Uuid::from_bytes([n; 16])
}

/// Subsystem `a` with namespaces 1 and 70000.
fn two() -> Inventory {
    let mut builder = InventoryBuilder::default();
    builder.add_subsystem(SubsystemConfig::new(nqn("a"))).unwrap();
    builder.add_namespace(&nqn("a"), Nsid(1), NamespaceConfig::named(device(100), "one")).unwrap();
    builder.add_namespace(&nqn("a"), Nsid(70_000), config(100)).unwrap();
    builder.build().unwrap()
}

/// The changes that an edit leads to.
fn changes(edit: impl FnOnce(&mut InventoryBuilder)) -> Vec<Change> {
    let before = two();
    let mut builder = before.edit();
    edit(&mut builder);
    let now = builder.build().unwrap();
    assert_eq!(now.generation() - before.generation(), u64::from(now != before));
    now.changes_since(&before)
}

#[test]
fn an_inventory_is_found_its_way_in() {
    let inventory = two();
    assert_eq!(inventory.generation(), 1);
    let far = inventory.namespace(&nqn("a"), Nsid(70_000)).unwrap();
    assert_eq!((far.blocks, far.lun(), far.name.as_deref()), (100, None, None));
    assert_eq!(inventory.named("one").unwrap().lun(), Some(0));
    assert_eq!((inventory.namespaces().count(), inventory.devices().len()), (2, 2));
    assert!(inventory.namespace(&nqn("b"), Nsid(1)).is_none() && inventory.named("two").is_none());
}

#[test]
fn what_is_there_twice_is_refused() {
    let a = nqn("a");
    let mut builder = two().edit();
    assert_eq!(
        builder.add_subsystem(SubsystemConfig::new(a.clone())).unwrap_err(),
        InventoryError::DuplicateSubsystem(a.clone())
    );
    let discovery = SubsystemConfig::new(Nqn::discovery());
    assert_eq!(
        builder.add_subsystem(discovery).unwrap_err(),
        InventoryError::ReservedName(Nqn::discovery())
    );
    let again = builder.add_namespace(&a, Nsid(1), config(5)).unwrap_err();
    assert_eq!(again, InventoryError::DuplicateNamespace(a.clone(), Nsid(1)));

    let twice = |first: NamespaceConfig, second: NamespaceConfig| {
        let mut builder = two().edit();
        builder.add_subsystem(SubsystemConfig::new(nqn("b"))).unwrap();
        builder.add_namespace(&nqn("a"), Nsid(2), first).unwrap();
        builder.add_namespace(&nqn("b"), Nsid(2), second).unwrap();
        builder.build().unwrap_err()
    };
    let with_uuid = || NamespaceConfig { uuid: Some(uuid(1)), ..config(5) };
    assert_eq!(twice(with_uuid(), with_uuid()), InventoryError::DuplicateUuid(uuid(1)));
    let with_nguid = || NamespaceConfig { nguid: Some([3; 16]), ..config(5) };
    assert_eq!(twice(with_nguid(), with_nguid()), InventoryError::DuplicateNguid([3; 16]));
    let with_eui64 = || NamespaceConfig { eui64: Some([3; 8]), ..config(5) };
    assert_eq!(twice(with_eui64(), with_eui64()), InventoryError::DuplicateEui64([3; 8]));
    let named = || NamespaceConfig::named(device(5), "disk");
    assert_eq!(twice(named(), named()), InventoryError::DuplicateName("disk".into()));
}

#[test]
fn what_cannot_be_served_is_refused() {
    let a = nqn("a");
    let mut builder = two().edit();
    for nsid in [Nsid(0), Nsid::ALL] {
        assert_eq!(
            builder.add_namespace(&a, nsid, config(5)).unwrap_err(),
            InventoryError::Identifier(nsid)
        );
    }
    let zero = NamespaceConfig { uuid: Some(Uuid::nil()), ..config(5) };
    assert_eq!(
        builder.add_namespace(&a, Nsid(2), zero).unwrap_err(),
        InventoryError::ZeroIdentity(Nsid(2))
    );
    let more = NamespaceConfig { blocks: Some(6), ..config(5) };
    let refused = builder.add_namespace(&a, Nsid(2), more).unwrap_err();
    assert!(matches!(refused, InventoryError::Size { blocks: 5, wanted: 6, .. }), "{refused}");
    assert_eq!(
        builder.remove_namespace(&a, Nsid(2)).unwrap_err(),
        InventoryError::NoNamespace(a.clone(), Nsid(2))
    );
    assert_eq!(
        builder.remove_subsystem(&nqn("b")).unwrap_err(),
        InventoryError::NoSubsystem(nqn("b"))
    );
    builder.name_namespace(&a, Nsid(1), Some(String::new())).unwrap();
    assert_eq!(builder.build().unwrap_err(), InventoryError::Name(String::new()));
}

#[test]
fn changes_say_what_is_different() {
    let a = || nqn("a");
    assert_eq!(changes(|_| ()), []);
    let added = changes(|builder| {
        builder.add_namespace(&a(), Nsid(2), config(5)).unwrap();
        builder
            .add_subsystem(SubsystemConfig::new(nqn("b")))
            .unwrap()
            .add_namespace(&nqn("b"), Nsid(9), config(1))
            .unwrap();
        builder.listen_at(["iscsi://127.0.0.1"]);
    });
    let expected = [
        Change::NamespaceAdded(a(), Nsid(2)),
        Change::SubsystemAdded(nqn("b")),
        Change::NamespaceAdded(nqn("b"), Nsid(9)),
        Change::ListenerAdded("iscsi://127.0.0.1".into()),
    ];
    assert_eq!(added, expected);
    let removed = changes(|builder| _ = builder.remove_namespace(&a(), Nsid(70_000)).unwrap());
    assert_eq!(removed, [Change::NamespaceRemoved(a(), Nsid(70_000))]);
    assert_eq!(
        changes(|builder| _ = builder.remove_subsystem(&a()).unwrap()),
        [Change::SubsystemRemoved(a())]
    );
    let denied =
        changes(|builder| _ = builder.subsystem_mut(&a()).unwrap().hosts.deny(&nqn("host")));
    assert_eq!(denied, [Change::AccessChanged(a())]);
    let changed = |shrunk| [Change::NamespaceChanged { subsystem: a(), nsid: Nsid(1), shrunk }];
    assert_eq!(
        changes(|builder| _ = builder.resize_namespace(&a(), Nsid(1), Some(99)).unwrap()),
        changed(true)
    );
    let hidden = |builder: &mut InventoryBuilder| {
        _ = builder.show_namespace(&a(), Nsid(1), |hosts, _| _ = hosts.deny(&nqn("host"))).unwrap();
    };
    assert_eq!(changes(hidden), changed(false));
    assert_eq!(
        changes(|builder| _ = builder.name_namespace(&a(), Nsid(1), None).unwrap()),
        changed(false)
    );
}

#[test]
fn what_hosts_have_to_prove_and_may_use_is_a_part_of_it() {
    let (a, discovery) = (nqn("a"), Nqn::discovery());
    for subsystem in [&a, &discovery] {
        let demand = |builder: &mut InventoryBuilder| {
            _ = builder.authenticate(subsystem, Some(Authentication::default())).unwrap();
        };
        assert_eq!(changes(demand), [Change::AuthenticationChanged(subsystem.clone())]);
    }
    let limit = Limit { operations: 1, bytes: 0 };
    let limited = changes(|builder| _ = builder.limit_hosts([("h".into(), limit)]).unwrap());
    assert_eq!(limited, [Change::HostsChanged]);
    let given = BTreeMap::from([(nqn("h"), Id128([1; 16]))]);
    assert_eq!(changes(|builder| _ = builder.identify_hosts(given)), [Change::HostsChanged]);
    let named = changes(|builder| _ = builder.name_discovery(Some(nqn("discovery"))));
    assert_eq!(named, [Change::DiscoveryChanged]);
    let others = [OtherGateway { first_cntlid: 1, urls: Vec::new() }];
    let told = changes(|builder| _ = builder.set_others(&others));
    assert_eq!(told, [Change::OthersChanged(others.to_vec())]);

    let mut builder = two().edit();
    let unknown = builder.authenticate(&nqn("b"), None).unwrap_err();
    assert_eq!(unknown, InventoryError::NoSubsystem(nqn("b")));
    let many = (0..=HOST_LIMITS_MAX).map(|n| (n.to_string(), limit));
    let refused = builder.limit_hosts(many).unwrap_err();
    assert_eq!(refused, InventoryError::HostLimits(HOST_LIMITS_MAX.to_string()));
    builder.name_discovery(Some(a.clone()));
    assert_eq!(builder.build().unwrap_err(), InventoryError::DiscoveryName(a));
}

#[test]
fn what_is_wanted_is_served_and_nothing_else() {
    let (before, a) = (two(), SubsystemConfig::new(nqn("a")));
    let config = |of: &Arc<Namespace>| {
        let name = of.name.clone();
        (of.nsid, NamespaceConfig { name, ..NamespaceConfig::new(Arc::clone(of.given())) })
    };
    let all: Vec<_> = before.namespaces().map(config).collect();
    let serve = |wanted| {
        let mut builder = before.edit();
        builder.serve(wanted).map(|_| ())?;
        builder.build()
    };
    let same = serve(vec![(a.clone(), all.clone())]).unwrap();
    assert_eq!((same.generation(), same.changes_since(&before)), (1, vec![]));
    let b = SubsystemConfig::new(nqn("b"));
    let next = serve(vec![(b.clone(), Vec::new()), (a, all[1..].to_vec())]).unwrap();
    let names: Vec<_> = next.subsystems().iter().map(|of| of.nqn.clone()).collect();
    assert_eq!(names, [nqn("a"), nqn("b")], "what was there keeps its place");
    let (far, was) = (&next.subsystems()[0], before.namespace(&nqn("a"), Nsid(70_000)).unwrap());
    assert!(Arc::ptr_eq(far.namespace(Nsid(70_000)).unwrap(), was));
    assert_eq!(far.namespaces().count(), 1);
    assert_eq!(serve(vec![(b, Vec::new())]).unwrap().subsystems().len(), 1);
}

#[test]
fn a_value_is_swapped_for_the_one_that_it_was_made_of() {
    let live = LiveInventory::new(two());
    let prepare = |before: &Inventory, nsid| {
        let add = |builder: &mut InventoryBuilder| {
            builder.add_namespace(&nqn("a"), Nsid(nsid), config(1)).map(drop)
        };
        live.prepare(before, add).unwrap()
    };
    let before = live.now();
    let (second, third) = (prepare(&before, 2), prepare(&before, 3));
    assert_eq!(live.swap(&before, second).unwrap().namespaces().count(), 3);
    assert!(live.swap(&before, third).is_none(), "it lacks what has changed");
    let now = live.now();
    assert_eq!(live.swap(&now, prepare(&now, 3)).unwrap().namespaces().count(), 4);
}

#[test]
fn the_same_data_is_known_by_its_uuid() {
    let a = nqn("a");
    let replace = |before: &Inventory, uuid| {
        let mut builder = before.edit();
        builder.replace_namespace(&a, Nsid(1), NamespaceConfig { uuid, ..config(200) }).unwrap();
        builder.build().unwrap()
    };
    let of = |inventory: &Inventory| Arc::clone(inventory.namespace(&nqn("a"), Nsid(1)).unwrap());
    let first = two();
    // Nobody says that it is the same data, so it has another UUID.
    let second = replace(&first, None);
    assert_eq!(second.changes_since(&first), [Change::NamespaceReplaced(a.clone(), Nsid(1))]);
    assert!(!of(&second).is_same_data(&of(&first)) && of(&second).uuid != of(&first).uuid);
    let third = replace(&second, Some(of(&second).uuid));
    let changed = Change::NamespaceChanged { subsystem: a.clone(), nsid: Nsid(1), shrunk: false };
    assert_eq!(third.changes_since(&second), [changed]);
    // Removed and added in one go is replaced; another time it is as if it had never been there.
    let mut builder = third.edit();
    builder.remove_namespace(&a, Nsid(1)).unwrap().add_namespace(&a, Nsid(1), config(200)).unwrap();
    let fourth = builder.build().unwrap();
    assert_eq!(fourth.changes_since(&third), [Change::NamespaceReplaced(a.clone(), Nsid(1))]);
    assert_eq!(two().namespace(&a, Nsid(1)).unwrap().uuid, of(&first).uuid, "it lasts");
}

#[test]
fn access_is_for_any_or_for_some() {
    let mut access = Access::Any;
    assert!(access.allows(&1) && access.names().is_none());
    access.allow(1);
    assert_eq!(access, Access::Any);
    assert!(access.deny(&1) && !access.allows(&2));
    access.allow(2);
    assert!(access.allows(&2) && !access.allows(&1) && !access.deny(&1));
    assert_eq!(access, Access::from(Some(vec![2])));
}

/// Notes what it hears.
#[derive(Default)]
struct Listening(Lock<Vec<(u64, usize)>>);

impl Follower for Listening {
    fn follow(&self, now: &Arc<Inventory>, changes: &[Change]) {
        self.0.lock().push((now.generation(), changes.len()));
    }
}

#[test]
fn followers_hear_of_each_change_once_and_in_order() {
    let live = LiveInventory::new(two());
    let listening = live.join(|_| Arc::<Listening>::default());
    let gone = live.join(|_| Arc::<Listening>::default());
    drop(gone);
    let threads: Vec<_> = (0..4u32)
        .map(|thread| {
            let live = Arc::clone(&live);
            std::thread::spawn(move || {
                for n in 0..25 {
                    let add = |builder: &mut InventoryBuilder| {
                        builder
                            .add_namespace(&nqn("a"), Nsid(100 + thread * 100 + n), config(1))
                            .map(drop)
                    };
                    live.change(add).unwrap();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(*listening.0.lock(), (2..102).map(|generation| (generation, 1)).collect::<Vec<_>>());
    // One that fails, and one that changes nothing, are not told.
    assert!(live.change(|builder| builder.remove_subsystem(&nqn("b")).map(drop)).is_err());
    live.change(|_| Ok(())).unwrap();
    live.look_at_devices();
    assert_eq!((listening.0.lock().len(), live.now().generation()), (100, 101));
    let device = Arc::clone(&live.now().named("one").unwrap().device);
    live.device_changed(&device, weft_block::DeviceChange::Gone);
    assert_eq!(live.now().named("one").unwrap().presence, Presence::Gone);
    live.look_at_devices();
    assert_eq!(live.now().named("one").unwrap().presence, Presence::Gone, "it does not come back");
}
