//! Reservations outlast the death of the server that keeps them, if their hosts asked for it.

use crate::nvme::NvmeHost;
use crate::support::{Scratch, Server, run, weft};
use weft_proto::nvme::opcode::NvmOpcode;
use weft_proto::nvme::status::Status;

const NQN: &str = "nqn.2026-01.example.weft:lasting";
/// CPTPL: from now on they outlast a loss of power.
const PERSIST: u32 = 3 << 30;

fn serve(dir: &Scratch) -> Server {
    Server::start(dir.path(), &["file:disk.img,size=1MiB", "--nqn", NQN, "--threads", "1"])
}

fn host(server: &Server, id: u8) -> NvmeHost {
    NvmeHost::new(server.address().parse().unwrap(), NQN, id)
}

fn kill(server: Server) {
    weft_testing::process::signal(server.pid(), "KILL");
    drop(server);
}

#[test]
fn a_reservation_outlasts_kill_9() {
    let dir = Scratch::new("reservations");
    let server = serve(&dir);
    let (mut one, mut two) = (host(&server, 1), host(&server, 2));
    assert_eq!(one.reserve(NvmOpcode::RESERVATION_REGISTER, PERSIST, [0, 1]), Status::SUCCESS);
    assert_eq!(two.reserve(NvmOpcode::RESERVATION_REGISTER, 0, [0, 2]), Status::SUCCESS);
    assert_eq!(one.reserve(NvmOpcode::RESERVATION_ACQUIRE, 2 << 8, [1, 0]), Status::SUCCESS);
    assert_eq!(two.read(), Status::RESERVATION_CONFLICT);
    kill(server);

    // From the first command on.
    let server = serve(&dir);
    let (mut two, mut stranger) = (host(&server, 2), host(&server, 3));
    assert_eq!(
        (two.read(), stranger.read()),
        (Status::RESERVATION_CONFLICT, Status::RESERVATION_CONFLICT)
    );
    assert_eq!(host(&server, 1).write(), Status::SUCCESS);
    assert_eq!(two.reserve(NvmOpcode::RESERVATION_ACQUIRE, 1 | 2 << 8, [2, 1]), Status::SUCCESS);
    assert_eq!(
        two.reserve(NvmOpcode::RESERVATION_REGISTER, 2 << 30 | 2, [2, 2]),
        Status::SUCCESS,
        "not any more"
    );
    kill(server);

    let server = serve(&dir);
    assert_eq!(
        (host(&server, 1).write(), host(&server, 3).write()),
        (Status::SUCCESS, Status::SUCCESS)
    );
}

/// The UUID of a RAM disk is another one after a restart, so nobody would ever find its file.
#[test]
fn a_ram_disk_leaves_no_file() {
    let dir = Scratch::new("ram-reservations");
    let server = Server::start(dir.path(), &["ram:1MiB", "--nqn", NQN, "--threads", "1"]);
    let mut one = host(&server, 1);
    let refused = one.reserve(NvmOpcode::RESERVATION_REGISTER, PERSIST, [0, 1]);
    assert_eq!(refused, Status::INVALID_FIELD);
    assert_eq!(one.reserve(NvmOpcode::RESERVATION_REGISTER, 0, [0, 1]), Status::SUCCESS);
    assert_eq!(one.reserve(NvmOpcode::RESERVATION_ACQUIRE, 2 << 8, [1, 0]), Status::SUCCESS);
    assert_eq!(host(&server, 2).write(), Status::RESERVATION_CONFLICT);
    kill(server);
    assert!(!dir.path().join("state/reservations").exists());
}

#[test]
fn a_damaged_file_is_not_served_without_its_reservations() {
    let dir = Scratch::new("damaged");
    let server = serve(&dir);
    assert_eq!(
        host(&server, 1).reserve(NvmOpcode::RESERVATION_REGISTER, PERSIST, [0, 1]),
        Status::SUCCESS
    );
    kill(server);
    let files = std::fs::read_dir(dir.path().join("state/reservations")).unwrap();
    let file = files
        .map(|file| file.unwrap().path())
        .find(|path| path.extension().is_some_and(|it| it == "json"))
        .unwrap();
    std::fs::write(&file, "{}").unwrap();
    let ran = run(weft(
        dir.path(),
        &["serve", "file:disk.img,size=1MiB", "--nqn", NQN, "--listen", "nvme+tcp://127.0.0.1:0"],
    ));
    assert_ne!(ran.code(), Some(0));
    assert!(
        ran.message().contains("the reservations of the namespace")
            && ran.message().contains("delete it"),
        "{ran:?}"
    );
}
