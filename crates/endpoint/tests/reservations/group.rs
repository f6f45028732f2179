//! Two gateways over one disk, which share its reservations: hosts of one are kept out, told and
//! aborted by what hosts of the other do.

use super::nvme::NvmeHost;
use super::{
    CONFLICT, GOOD, INITIATOR, NQN, REGISTRATIONS_PREEMPTED, Testbed, host_told,
    persistent_reserve_out, preempt_during_a_write, reserve_out, scsi_read, scsi_write, served,
};
use crate::iscsi_wire::host::{Host, IQN};
use std::collections::HashMap;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard};
use uuid::Uuid;
use weft_block::{Device, Error};
use weft_endpoint::inventory::{
    ControllerRange, InventoryBuilder, LiveInventory, NamespaceConfig, Sharing, SubsystemConfig,
};
use weft_endpoint::reservations::{ReservationTable, SharedStore};
use weft_proto::nvme::opcode::NvmOpcode;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Nqn, Nsid};
use weft_testing::wait::{PATIENCE, until};

/// What the gateways share.
#[derive(Default)]
struct Cluster {
    objects: Mutex<HashMap<Uuid, (u64, Vec<u8>)>>,
    tables: Mutex<Vec<ReservationTable>>,
    /// Holds up the next replacement by the first gateway.
    hold: Mutex<Option<Hold>>,
}

/// Says when a replacement has come, and waits until it may go on.
struct Hold {
    come: Sender<()>,
    go_on: Receiver<()>,
}

/// The cluster, as the store of one gateway.
struct GatewayStore {
    cluster: Arc<Cluster>,
    me: usize,
}

impl Cluster {
    fn objects(&self) -> MutexGuard<'_, HashMap<Uuid, (u64, Vec<u8>)>> {
        self.objects.lock().unwrap()
    }
}

impl SharedStore for GatewayStore {
    fn read(&self, namespace: Uuid) -> Result<Option<(u64, Vec<u8>)>, Error> {
        Ok(self.cluster.objects().get(&namespace).cloned())
    }

    fn replace(&self, namespace: Uuid, before: u64, object: &[u8]) -> Result<Option<u64>, Error> {
        let hold = if self.me == 0 { self.cluster.hold.lock().unwrap().take() } else { None };
        if let Some(Hold { come, go_on }) = hold {
            come.send(()).unwrap();
            go_on.recv_timeout(PATIENCE).unwrap();
        }
        let mut objects = self.cluster.objects();
        let now = objects.get(&namespace).map_or(0, |(generation, _)| *generation);
        if now != before {
            return Ok(None);
        }
        objects.insert(namespace, (now + 1, object.to_vec()));
        Ok(Some(now + 1))
    }

    fn tell(&self, namespace: Uuid) -> Result<(), Error> {
        let all = self.cluster.tables.lock().unwrap().clone();
        let (sender, receiver) = mpsc::channel();
        for (_, table) in (0..).zip(&all).filter(|(n, _)| *n != self.me) {
            let sender = sender.clone();
            table.changed_elsewhere(namespace, Box::new(move || _ = sender.send(())));
        }
        (1..all.len()).for_each(|_| receiver.recv_timeout(PATIENCE).expect("the gateway answers"));
        Ok(())
    }
}

/// A gateway of a group, with a thousand controller identifiers of its own.
fn gateway(cluster: &Arc<Cluster>, device: &Device) -> Testbed {
    let nqn = Nqn::new(NQN).unwrap();
    let mut tables = cluster.tables.lock().unwrap();
    let me = tables.len();
    let table =
        ReservationTable::shared(Arc::new(GatewayStore { cluster: Arc::clone(cluster), me }));
    tables.push(table.clone());
    drop(tables);
    let first = me as u16 * 1000 + 1;
    let mut builder = InventoryBuilder::default();
    builder
        .set_range(ControllerRange { cntlids: (first, first + 999), sharing: Sharing::Group })
        .unwrap();
    builder.add_subsystem(SubsystemConfig::new(nqn.clone())).unwrap();
    builder.add_namespace(&nqn, Nsid(1), NamespaceConfig::named(Arc::clone(device), "1")).unwrap();
    Testbed::serve(LiveInventory::with_reservations(builder.build().unwrap(), table).unwrap())
}

fn two() -> [Testbed; 2] {
    two_of(&Arc::default())
}

fn two_of(cluster: &Arc<Cluster>) -> [Testbed; 2] {
    let device = served::devices(&["ram:1MiB"]).remove(0);
    [(); 2].map(|()| gateway(cluster, &device))
}

fn register(host: &mut NvmeHost, key: u64) {
    assert_eq!(host.reserve(NvmOpcode::RESERVATION_REGISTER, 0, [0, key]), Status::SUCCESS);
}

#[test]
fn an_nvme_host_is_one_registrant_at_all_gateways() {
    let [a, b] = two();
    let (mut one_a, mut one_b) = (a.nvme_host(1), b.nvme_host(1));
    let (mut two_a, mut two_b) = (a.nvme_host(2), b.nvme_host(2));
    let disk = b.nbd_client();
    register(&mut one_a, 0x11);
    assert_eq!((one_a.registrants(), one_b.registrants(), two_b.registrants()), (1, 1, 1));
    // Write exclusive, by the other gateway.
    assert_eq!(one_b.reserve(NvmOpcode::RESERVATION_ACQUIRE, 1 << 8, [0x11, 0]), Status::SUCCESS);
    assert_eq!((one_a.write(), one_b.write()), (Status::SUCCESS, Status::SUCCESS));
    assert_eq!(
        (two_a.write(), two_b.write()),
        (Status::RESERVATION_CONFLICT, Status::RESERVATION_CONFLICT)
    );
    assert!(disk.write(0, &[0; 512]).is_err());
    drop(disk);
    // The other host takes it over, and the first one hears of it at both.
    register(&mut two_a, 0x22);
    assert_eq!(
        two_b.reserve(NvmOpcode::RESERVATION_ACQUIRE, 1 | 1 << 8, [0x22, 0x11]),
        Status::SUCCESS
    );
    assert_eq!((one_a.hear(), one_b.hear()), (1, 1));
    assert_eq!(
        (one_a.write(), one_b.write()),
        (Status::RESERVATION_CONFLICT, Status::RESERVATION_CONFLICT)
    );
    assert_eq!((two_a.write(), two_b.write()), (Status::SUCCESS, Status::SUCCESS));
    assert_eq!((two_a.registrants(), two_b.registrants()), (1, 1));
}

#[test]
fn a_write_at_one_gateway_is_fenced_by_a_host_at_the_other() {
    let [a, b] = two();
    let (mut fenced, mut fencer) = (a.nvme_host(1), b.nvme_host(2));
    register(&mut fenced, 1);
    register(&mut fencer, 2);
    assert_eq!(fenced.reserve(NvmOpcode::RESERVATION_ACQUIRE, 3 << 8, [1, 0]), Status::SUCCESS);
    preempt_during_a_write(&mut fenced, &mut fencer);
    assert_eq!((fenced.write(), fencer.write()), (Status::RESERVATION_CONFLICT, Status::SUCCESS));
}

/// The keys that PERSISTENT RESERVE IN reads.
fn keys(host: &mut Host) -> Vec<u64> {
    let mut cdb = [0; 16];
    (cdb[0], cdb[7]) = (0x5e, 1);
    let ended = host.command(&cdb, 256, &[], 0);
    assert_eq!(ended.status, GOOD);
    ended.data[8..]
        .chunks_exact(8)
        .map(|key| u64::from_be_bytes(key.try_into().unwrap()))
        .filter(|key| *key != 0)
        .collect()
}

/// Registers an initiator at the target port that it came by, or at all.
fn register_initiator(host: &mut Host, key: u64, all_ports: bool) {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1], cdb[8]) = (0x5f, 6, 24);
    let list = [&[0; 8][..], &key.to_be_bytes(), &[0, 0, 0, 0, u8::from(all_ports) << 2, 0, 0, 0]]
        .concat();
    assert_eq!(host.command(&cdb, 0, &list, list.len()).status, GOOD);
}

#[test]
fn an_initiator_is_a_registrant_of_the_port_of_one_gateway_or_of_all() {
    assert!(IQN.starts_with("iqn."), "the gateways are ports of one target");
    let [a, b] = two();
    let (mut at_a, mut at_b) =
        (Host::logged_in(&a.iscsi, INITIATOR), Host::logged_in(&b.iscsi, INITIATOR));
    let mut nvme = b.nvme_host(1);
    register_initiator(&mut at_a, 0x11, false);
    assert_eq!((keys(&mut at_a), keys(&mut at_b)), (vec![0x11], vec![0x11]));
    // RESERVE(6), which the other gateway would not know of: INVALID COMMAND OPERATION CODE.
    let mut reserve = [0; 16];
    reserve[0] = 0x16;
    assert_eq!(at_a.command(&reserve, 0, &[], 0).code, 0x2000);
    // Write exclusive, registrants only.
    assert_eq!(reserve_out(&mut at_a, 1, 5, [0x11, 0]), GOOD);
    assert_eq!(
        (scsi_write(&mut at_a), scsi_write(&mut at_b), scsi_read(&mut at_b)),
        (GOOD, CONFLICT, GOOD)
    );
    assert_eq!(nvme.write(), Status::RESERVATION_CONFLICT);
    // The ports of the other gateway are others.
    register_initiator(&mut at_b, 0x22, false);
    assert_eq!((keys(&mut at_a).len(), scsi_write(&mut at_b)), (2, GOOD));
    register_initiator(&mut at_a, 0x33, true);
    assert_eq!((keys(&mut at_a), keys(&mut at_b)), (vec![0x33], vec![0x33]));
    assert_eq!((scsi_write(&mut at_a), scsi_write(&mut at_b)), (GOOD, GOOD));
    // A host at one gateway preempts the initiator at both.
    register(&mut nvme, 1);
    assert_eq!(
        nvme.reserve(NvmOpcode::RESERVATION_ACQUIRE, 1 | 1 << 8, [1, 0x33]),
        Status::SUCCESS
    );
    assert_eq!(
        (host_told(&mut at_a), host_told(&mut at_b)),
        (REGISTRATIONS_PREEMPTED, REGISTRATIONS_PREEMPTED)
    );
    assert_eq!(
        (scsi_write(&mut at_a), scsi_write(&mut at_b), nvme.write()),
        (CONFLICT, CONFLICT, Status::SUCCESS)
    );
}

#[test]
fn a_gateway_that_comes_later_begins_with_the_reservations_of_the_others() {
    let (cluster, device) = (Arc::default(), served::devices(&["ram:1MiB"]).remove(0));
    let a = gateway(&cluster, &device);
    let mut one = a.nvme_host(1);
    register(&mut one, 1);
    assert_eq!(one.reserve(NvmOpcode::RESERVATION_ACQUIRE, 1 << 8, [1, 0]), Status::SUCCESS);
    let b = gateway(&cluster, &device);
    assert_eq!(
        (b.nvme_host(2).write(), b.nvme_host(1).write()),
        (Status::RESERVATION_CONFLICT, Status::SUCCESS)
    );
    assert_eq!(scsi_write(&mut Host::logged_in(&b.iscsi, INITIATOR)), CONFLICT);
}

/// A command on reservations waits for the change by another gateway that aborts it, and that for
/// the end of the aborted commands.
#[test]
fn a_command_on_reservations_may_be_aborted_by_what_it_waits_for() {
    let cluster = Arc::<Cluster>::default();
    let [a, b] = two_of(&cluster);
    let (mut initiator, mut aborted, mut fencer) =
        (Host::logged_in(&a.iscsi, INITIATOR), a.nvme_host(1), b.nvme_host(2));
    let generation = || cluster.objects().values().next().map_or(0, |(generation, _)| *generation);
    register(&mut fencer, 2);
    // A command of an initiator, and one of an NVMe host, each with the key by which it is
    // preempted.
    for by_iscsi in [true, false] {
        if by_iscsi {
            register_initiator(&mut initiator, 1, false)
        } else {
            register(&mut aborted, 1)
        }
        let ((come, has_come), (let_go, go_on)) = (mpsc::channel(), mpsc::channel());
        *cluster.hold.lock().unwrap() = Some(Hold { come, go_on });
        if by_iscsi {
            let (reserve, list) = persistent_reserve_out(1, 5, [1, 0]);
            initiator.begin(&reserve, 0, &list, list.len());
        } else {
            aborted.begin_reserve(NvmOpcode::RESERVATION_ACQUIRE, 3 << 8, [1, 0]);
        }
        has_come.recv_timeout(PATIENCE).expect("the command has come to the store");
        let before = generation();
        std::thread::scope(|scope| {
            let fencing =
                scope.spawn(|| fencer.reserve(NvmOpcode::RESERVATION_ACQUIRE, 2 | 3 << 8, [2, 1]));
            until("the preemption is in the store", || generation() > before);
            let_go.send(()).unwrap();
            assert_eq!(fencing.join().unwrap(), Status::SUCCESS, "by iSCSI: {by_iscsi}");
        });
        assert_eq!(fencer.reserve(NvmOpcode::RESERVATION_RELEASE, 3 << 8, [2, 0]), Status::SUCCESS);
    }
    // What comes later is done as ever.
    register_initiator(&mut Host::logged_in(&a.iscsi, INITIATOR), 1, false);
    assert_eq!(fencer.registrants(), 2);
}
