//! Reading the discovery log.

use weft_proto::nvme::host::{
    DiscoveryResult, FaultSide, HostAction, HostConfig, HostError, Incompatibility, Violation,
};
use weft_proto::nvme::identify::ControllerType;

use super::fake::{Fake, Reply, entry};
use super::setup::{MINUTE, error_of};
use super::world::{World, discovery_config};

fn discover(fake: Fake) -> World {
    let mut world = World::new(discovery_config(), fake);
    world.run();
    world
}

#[test]
fn discovery_logs_of_all_lengths() {
    for count in [1, 3, 4, 5, 9] {
        let mut world = discover(Fake::discovery(count));
        let expected = DiscoveryResult { generation: 1, entries: (0..count).map(entry).collect() };
        assert_eq!(world.said.pop_back(), Some(HostAction::Discovered(expected)));
        assert_eq!(world.outstanding(0x0c), 0, "no events are asked for");
        world.host.shutdown(world.now);
        assert_eq!(world.last_word(MINUTE), Some(HostAction::Closed { confirmed: true }));
    }
}

#[test]
fn an_empty_discovery_log() {
    let mut fake = Fake::discovery(0);
    fake.discovery.clear();
    let mut world = World::new(HostConfig { keep_alive_ms: 30_000, ..discovery_config() }, fake);
    world.run();
    assert_eq!(
        world.said.pop_back(),
        Some(HostAction::Discovered(DiscoveryResult { generation: 1, entries: Vec::new() }))
    );
    assert_eq!(world.outstanding(0x0c), 1);
}

#[test]
fn a_log_that_changes_while_it_is_read_is_read_again() {
    let mut reads = 0;
    let mut world =
        World::scripted(discovery_config(), Fake::discovery(6), move |_, sqe, _, fake| {
            reads += u32::from(sqe.opcode() == 2);
            if reads == 3 && sqe.opcode() == 2 {
                fake.generation = 2;
                fake.discovery.push(entry(100));
            }
            None
        });
    world.run();
    let Some(HostAction::Discovered(result)) = world.said.pop_back() else { panic!() };
    assert_eq!((result.generation, result.entries.len()), (2, 7));
    assert_eq!(result.entries[6], entry(100));
}

#[test]
fn a_log_that_never_settles_is_given_up() {
    let mut world = World::scripted(discovery_config(), Fake::discovery(2), |_, sqe, _, fake| {
        fake.generation += u64::from(sqe.opcode() == 2);
        None
    });
    let error = error_of(world.last_word(MINUTE));
    assert_eq!(error, HostError::Violation(Violation::Unsettled(10)));
}

#[test]
fn discovery_logs_that_are_refused() {
    let header = |numrec: u64, recfmt: u16| weft_proto::nvme::log_page::DiscoveryHeader {
        genctr: 1,
        numrec,
        recfmt,
    };
    for (header, fault) in [
        (header(4097, 0), FaultSide::Limit),
        (header(u64::MAX, 0), FaultSide::Limit),
        (header(1, 1), FaultSide::Incompatible),
    ] {
        let bytes = header.encode();
        let mut world =
            World::scripted(discovery_config(), Fake::discovery(1), move |_, sqe, _, _| {
                (sqe.opcode() == 2).then(|| Reply::data(bytes.clone()))
            });
        assert_eq!(error_of(world.last_word(MINUTE)).fault(), fault);
    }
    let mut fake = Fake::discovery(1);
    fake.identify.cntrltype = ControllerType::IO;
    assert_eq!(
        error_of(discover(fake).said.pop_back()),
        HostError::Incompatible(Incompatibility::NotDiscovery)
    );
}
