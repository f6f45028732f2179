//! Ownership of an identifier (HOSTID) that two hosts use, each with a secret of its own.

use super::{Demanding, knows, secret, subsystem};
use crate::intruder::{Door, Entered, OWNER, STRANGER, Testbed};
use crate::served;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use uuid::Uuid;
use weft_endpoint::inventory::{
    Authentication, Forgotten, InventoryBuilder, LiveInventory, NamespaceConfig, SubsystemConfig,
};
use weft_endpoint::reservations::ReservationTable;
use weft_proto::nvme::opcode::NvmOpcode;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cntlid, Id128, Nqn, Nsid};
use weft_testing::wait::until;

const EXCLUSIVE_ACCESS: u32 = 2 << 8;
/// CPTPL: what is registered outlasts a loss of power.
const PERSIST: u32 = 3 << 30;

fn nqn(name: &str) -> Nqn {
    Nqn::new(name).unwrap()
}

fn demanded() -> Authentication {
    let hosts = [(OWNER, 1), (STRANGER, 2)].map(|(name, byte)| (nqn(name), vec![secret(byte)]));
    Authentication { hosts: BTreeMap::from(hosts), ..knows(&[]) }
}

fn inventory(reservations: ReservationTable) -> Arc<LiveInventory> {
    let mut builder = InventoryBuilder::default();
    builder.add_subsystem(SubsystemConfig::new(subsystem())).unwrap();
    let device = served::devices(&["ram:16MiB"]).remove(0);
    let config = NamespaceConfig {
        uuid: Some(Uuid::from_bytes([7; 16])),
        ..NamespaceConfig::named(device, "1")
    };
    builder.add_namespace(&subsystem(), Nsid(1), config).unwrap();
    LiveInventory::with_reservations(builder.build().unwrap(), reservations).unwrap()
}

/// What a host of this name finds that claims this identifier.
fn claims<D: Door>(stage: &Testbed<'_, D>, name: &str, id: u8) -> Entered {
    stage.enter(name, &stage.who(name, id), 0, Cntlid::DYNAMIC).1
}

const REFUSED: Entered = Entered::Refused(Status::CONNECT_INVALID_HOST);

/// A directory that goes with the test.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn whoever_comes_first_with_the_identifier_of_another_does_not_lock_it_out() {
    let target = Demanding::serving(inventory(ReservationTable::volatile()), demanded());
    let stage = Testbed(&target);
    let stranger = stage.host(STRANGER, 1);
    let mut owner = stage.host(OWNER, 1);
    assert_eq!((owner.write(77), owner.read()), (Status::SUCCESS, Ok(77)));
    let mut register = || owner.reserve(NvmOpcode::RESERVATION_REGISTER, 0, [0, 5]);
    assert_eq!(
        register(),
        Status::RESERVATION_CONFLICT,
        "the stranger would be the owner's registrant"
    );
    drop(stranger);
    until("the stranger is gone", || register() == Status::SUCCESS);
    assert_eq!(claims(&stage, STRANGER, 1), REFUSED);
}

#[test]
fn a_name_is_stored_with_its_registration_until_it_is_forgotten() {
    let directory =
        Directory(std::env::temp_dir().join(format!("weft-identifiers-{}", Uuid::new_v4())));
    let table = || ReservationTable::stored_in(directory.0.clone());
    let target = Demanding::serving(inventory(table()), demanded());
    let mut owner = Testbed(&target).host(OWNER, 1);
    assert_eq!(owner.reserve(NvmOpcode::RESERVATION_REGISTER, PERSIST, [0, 5]), Status::SUCCESS);
    assert_eq!(
        owner.reserve(NvmOpcode::RESERVATION_ACQUIRE, EXCLUSIVE_ACCESS, [5, 0]),
        Status::SUCCESS
    );
    drop((owner, target));
    // The next process starts when the one before has ended, and its locks with it.
    let lock = directory.0.join(format!("{}.lock", Uuid::from_bytes([7; 16])));
    until("the file is nobody's", || std::fs::File::open(&lock).unwrap().try_lock().is_ok());
    let target = Demanding::serving(inventory(table()), demanded());
    let stage = Testbed(&target);
    assert_eq!(claims(&stage, STRANGER, 1), REFUSED, "the first to come after a start");
    assert_eq!(stage.host(OWNER, 1).write(78), Status::SUCCESS);
    assert_eq!(stage.host(STRANGER, 2).write(79), Status::RESERVATION_CONFLICT);
    let forgotten = target.inventory.forget_host(&Forgotten::Name(nqn(OWNER))).unwrap();
    assert_eq!(forgotten, [(Id128([1; 16]), nqn(OWNER))]);
    assert_eq!(target.inventory.forget_host(&Forgotten::Identifier(Id128([1; 16]))).unwrap(), []);
    assert!(matches!(claims(&stage, STRANGER, 1), Entered::In(_)));
    assert_eq!(
        claims(&stage, OWNER, 1),
        REFUSED,
        "it is registered without a name, so it is that of the first to come"
    );
    let forgotten = target.inventory.forget_host(&Forgotten::Identifier(Id128([1; 16]))).unwrap();
    assert_eq!(forgotten, [(Id128([1; 16]), nqn(STRANGER))]);
    assert!(matches!(claims(&stage, OWNER, 1), Entered::In(_)));
}

#[test]
fn a_configuration_gives_a_host_its_identifier() {
    let target = Demanding::serving(inventory(ReservationTable::volatile()), demanded());
    let given = BTreeMap::from([(nqn(OWNER), Id128([1; 16]))]);
    target.inventory.change(|to| Ok(_ = to.identify_hosts(given))).unwrap();
    let stage = Testbed(&target);
    assert_eq!(claims(&stage, STRANGER, 1), REFUSED, "nobody is connected or registered");
    assert_eq!(claims(&stage, OWNER, 9), REFUSED, "it has another one");
    let mut owner = stage.host(OWNER, 1);
    assert_eq!(owner.reserve(NvmOpcode::RESERVATION_REGISTER, 0, [0, 5]), Status::SUCCESS);
    assert!(matches!(claims(&stage, STRANGER, 2), Entered::In(_)));
    let refused = target.inventory.forget_host(&Forgotten::Name(nqn(OWNER))).unwrap_err();
    assert!(refused.to_string().contains("[[host_identifier]]"), "{refused}");
    assert_eq!(owner.read(), Ok(0));
}

#[test]
fn whoever_uses_the_identifier_elsewhere_is_disconnected_when_it_is_registered() {
    let inventory = inventory(ReservationTable::volatile());
    let [here, there] = [(); 2].map(|()| Demanding::serving(Arc::clone(&inventory), demanded()));
    let mut stranger = Testbed(&there).host(STRANGER, 1);
    assert_eq!(stranger.write(1), Status::SUCCESS);
    let mut owner = Testbed(&here).host(OWNER, 1);
    assert_eq!(owner.reserve(NvmOpcode::RESERVATION_REGISTER, 0, [0, 5]), Status::SUCCESS);
    assert_eq!(
        owner.reserve(NvmOpcode::RESERVATION_ACQUIRE, EXCLUSIVE_ACCESS, [5, 0]),
        Status::SUCCESS
    );
    stranger.io.wait_for_end();
    assert_eq!(claims(&Testbed(&there), STRANGER, 1), REFUSED);
    assert_eq!((owner.write(2), owner.read()), (Status::SUCCESS, Ok(2)));
}
