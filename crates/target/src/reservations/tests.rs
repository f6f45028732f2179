use super::*;
use std::path::PathBuf;
use std::sync::mpsc;
use weft_base::lock::Lock;
use weft_proto::nvme::types::{Id128, Nqn};
use weft_proto::reservation::{
    Action, KeyCheck, Kind, Registrant, ReservationRefusal, ReservationRequest, ReservationState,
};
use weft_proto::scsi::lun::{NexusName, TransportId};
use weft_testing::wait::until;

const UUID: Uuid = Uuid::from_bytes([7; 16]);

/// A directory that goes with the test.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("weft-reservations-{}", Uuid::new_v4())))
    }

    fn table(&self) -> ReservationTable {
        ReservationTable::stored_in(self.0.clone())
    }

    /// The state of another process, which comes when the one before is gone.
    fn next(&self) -> Arc<NamespaceReservations> {
        // The thread that stored the last state may end a little later than its answer comes.
        let open = || self.table().of(UUID).unwrap();
        until("the process before lets go of the file", || open().shared().can_persist());
        open()
    }

    fn file(&self) -> PathBuf {
        self.0.join(format!("{UUID}.json"))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn nexus() -> Registrant {
    let initiator = TransportId::iscsi("iqn.2026-11.example:i", [0x40, 0, 1, 0x37, 0, 2]);
    Registrant::Nexus(NexusName { initiator, target_port: 1 })
}

fn host() -> Registrant {
    Registrant::Host(Id128([3; 16]))
}

fn run(
    of: &Arc<NamespaceReservations>,
    by: Registrant,
    action: Action,
    persist: Option<bool>,
) -> Result<(), ReservationRefusal> {
    let (sender, receiver) = mpsc::channel();
    of.execute(
        ReservationRequest { by, action, persist },
        Box::new(move |outcome| sender.send(outcome).unwrap()),
    );
    receiver.recv().unwrap()
}

fn register(
    of: &Arc<NamespaceReservations>,
    by: Registrant,
    key: u64,
    persist: bool,
) -> Result<(), ReservationRefusal> {
    run(of, by, Action::Register { check: KeyCheck::Ignore, key, all_ports: false }, Some(persist))
}

fn fill(table: &ReservationTable) {
    let of = table.of(UUID).unwrap();
    register(&of, nexus(), 1, true).unwrap();
    register(&of, host(), u64::MAX, true).unwrap();
    let kind = Kind::WriteExclusiveRegistrantsOnly;
    run(&of, host(), Action::Acquire { key: u64::MAX, kind }, None).unwrap();
}

#[test]
fn what_is_to_persist_outlasts_the_process() {
    let directory = Directory::new();
    fill(&directory.table());
    let of = directory.next();
    of.shared().look(|state| {
        assert!(state.is_persistent() && state.is_holder(&host()) && !state.is_holder(&nexus()));
        assert_eq!(
            (state.key(&nexus()), state.key(&host()), state.generation()),
            (Some(1), Some(u64::MAX), 0)
        );
    });
    assert_ne!(of.shared().epoch(), 0, "strangers are kept out from the first command on");
}

#[test]
fn what_is_not_to_persist_leaves_no_file() {
    let directory = Directory::new();
    let table = directory.table();
    register(&table.of(UUID).unwrap(), host(), 1, false).unwrap();
    assert!(!directory.0.exists());
    fill(&table);
    assert!(directory.file().exists());
    register(&table.of(UUID).unwrap(), host(), 2, false).unwrap();
    assert!(!directory.file().exists());
    drop(table);
    assert!(directory.next().shared().look(|state| state.registrations().is_empty()));
}

#[test]
fn a_namespace_that_comes_back_finds_its_own_and_another_one_does_not() {
    let table = ReservationTable::volatile();
    register(&table.of(UUID).unwrap(), host(), 1, false).unwrap();
    let other = table.of(Uuid::from_bytes([8; 16])).unwrap();
    assert!(other.shared().look(|state| state.registrations().is_empty()));
    assert_eq!(table.of(UUID).unwrap().shared().look(|state| state.key(&host())), Some(1));
    assert_eq!(register(&other, host(), 1, true), Err(ReservationRefusal::CannotPersist));
}

#[test]
fn a_file_that_cannot_be_written_changes_nothing() {
    let directory = Directory::new();
    // A directory where the new file is to be.
    let in_the_way = directory.0.join(format!("{UUID}.new"));
    std::fs::create_dir_all(&in_the_way).unwrap();
    let table = directory.table();
    let of = table.of(UUID).unwrap();
    assert_eq!(register(&of, host(), 1, true), Err(ReservationRefusal::NotStored));
    assert_eq!(of.shared().look(ReservationState::generation), 0);
    std::fs::remove_dir(&in_the_way).unwrap();
    assert_eq!(register(&of, host(), 1, true), Ok(()));
}

#[test]
fn a_damaged_file_is_refused_with_a_sentence() {
    let directory = Directory::new();
    fill(&directory.table());
    drop(directory.next());
    let text = std::fs::read_to_string(directory.file()).unwrap();
    let damages = [
        (text.replace("ffffffffffffffff", "fffffffffffffff0"), "checksum"),
        (text.replace("\"version\": 2", "\"version\": 3"), "version 3"),
        (text[..text.len() / 2].to_owned(), "EOF"),
        (String::new(), "EOF"),
    ];
    for (damaged, reason) in damages {
        assert_ne!(damaged, text);
        std::fs::write(directory.file(), damaged).unwrap();
        let error = directory.table().of(UUID).unwrap_err().to_string();
        assert!(error.contains(reason) && error.contains("delete it"), "{error}");
    }
    std::fs::write(directory.file(), &text).unwrap();
    assert!(directory.table().of(UUID).is_ok());
    let elsewhere = directory.0.join(format!("{}.json", Uuid::from_bytes([8; 16])));
    std::fs::copy(directory.file(), elsewhere).unwrap();
    assert!(
        directory
            .table()
            .of(Uuid::from_bytes([8; 16]))
            .unwrap_err()
            .to_string()
            .contains("is about")
    );
}

#[test]
fn two_processes_do_not_write_one_file() {
    let directory = Directory::new();
    let first = directory.table();
    fill(&first);
    let second = directory.table().of(UUID).unwrap();
    assert!(!second.shared().can_persist());
    assert_eq!(register(&second, host(), 1, true), Err(ReservationRefusal::CannotPersist));
    drop(first);
    assert!(directory.next().shared().can_persist());
}

/// Keeps what it is told.
#[derive(Default)]
struct Export(Lock<Vec<Arc<PendingChange>>>);

impl ReservationFollower for Export {
    fn reservations_changed(
        &self,
        _: Uuid,
        _: &weft_proto::reservation::Changes,
        pending: &Arc<PendingChange>,
    ) {
        self.0.lock().push(Arc::clone(pending));
    }
}

#[test]
fn an_operation_is_answered_when_the_last_export_is_done() {
    let table = ReservationTable::volatile();
    let exports = [Arc::new(Export::default()), Arc::new(Export::default())];
    exports.iter().for_each(|export| table.join(export));
    let (sender, receiver) = mpsc::channel();
    let action = Action::Register { check: KeyCheck::Ignore, key: 1, all_ports: false };
    let of = table.of(UUID).unwrap();
    of.execute(
        ReservationRequest { by: host(), action, persist: None },
        Box::new(move |outcome| sender.send(outcome).unwrap()),
    );
    for export in &exports {
        assert!(receiver.try_recv().is_err());
        export.0.lock().clear();
    }
    assert_eq!(receiver.try_recv(), Ok(Ok(())));
}

fn name(of: &str) -> Nqn {
    Nqn::new(&format!("nqn.2026-01.example.host:{of}")).unwrap()
}

fn register_as(
    of: &Arc<NamespaceReservations>,
    by: &str,
    key: u64,
) -> Result<(), ReservationRefusal> {
    let (sender, receiver) = mpsc::channel();
    let action = Action::Register { check: KeyCheck::Ignore, key, all_ports: false };
    let operation = ReservationRequest { by: host(), action, persist: Some(true) };
    of.execute_as(
        operation,
        Some(name(by)),
        Box::new(move |outcome| sender.send(outcome).unwrap()),
    );
    receiver.recv().unwrap()
}

#[test]
fn a_file_of_version_1_is_read_and_becomes_one_of_version_2() {
    let directory = Directory::new();
    std::fs::create_dir_all(&directory.0).unwrap();
    std::fs::write(directory.file(), include_str!("version_1/file.json")).unwrap();
    let of = directory.next();
    of.shared().look(|state| {
        assert!(
            state.is_holder(&host())
                && state.key(&nexus()) == Some(1)
                && state.proven(&host()).is_none()
        );
    });
    assert!(std::fs::read_to_string(directory.file()).unwrap().contains("\"version\": 2,"));
    let later = std::fs::read_to_string(directory.file())
        .unwrap()
        .replace("\"version\": 2,", "\"version\": 3, \"more\": 1,");
    assert!(decode(&later, UUID).unwrap_err().contains("it has version 3 of the format"));
}

#[test]
fn a_file_of_version_2_is_read_and_written_as_it_was() {
    let kept = include_str!("version_2/file.json").replace("\r\n", "\n");
    let state = decode(&kept, UUID).unwrap();
    assert!(state.is_holder(&host()) && state.key(&nexus()) == Some(1));
    assert_eq!((state.key(&host()), state.proven(&host())), (Some(u64::MAX), Some(&name("a"))));
    assert_eq!(encode(&state, UUID), kept);
}

#[test]
fn the_name_that_a_host_has_proved_outlasts_the_process_and_can_be_forgotten() {
    let directory = Directory::new();
    let table = directory.table();
    let of = table.of(UUID).unwrap();
    register(&of, nexus(), 1, true).unwrap();
    assert_eq!(register_as(&of, "a", 5), Ok(()));
    assert_eq!(register_as(&of, "b", 6), Err(ReservationRefusal::Conflict));
    drop((of, table));
    let of = directory.next();
    of.shared().look(|state| {
        assert_eq!((state.proven(&host()), state.key(&host())), (Some(&name("a")), Some(5)))
    });
    assert_eq!(register_as(&of, "b", 6), Err(ReservationRefusal::Conflict));
    let (sender, receiver) = mpsc::channel();
    of.forget(Id128([3; 16]), Box::new(move |outcome| sender.send(outcome).unwrap()));
    assert_eq!(receiver.recv().unwrap(), Ok(()));
    assert_eq!(register_as(&of, "b", 6), Ok(()));
    of.shared().look(|state| assert_eq!(state.proven(&host()), Some(&name("b"))));
}
