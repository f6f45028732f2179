//! Admin commands of callers, more than the queue holds, at a controller that answers none of them:
//! the association goes on.

use crate::hostile::fake::{Fake, Reply, is_admin};
use crate::hostile::targets::patient;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use weft_endpoint::ConnectOptions;
use weft_endpoint::source::nvme::tcp::Session;
use weft_endpoint::url::NvmeUrl;
use weft_proto::nvme::host::HostConfig;
use weft_proto::nvme::opcode::AdminOpcode;
use weft_proto::nvme::types::Nsid;

#[derive(Default)]
struct FakeState {
    is_ready: AtomicBool,
    /// Commands of callers.
    held: AtomicUsize,
    alive: AtomicBool,
}

#[test]
fn commands_of_callers_leave_room_for_keep_alive() {
    let most = usize::from(HostConfig::ADMIN_COMMANDS_OF_OTHERS);
    let seen = Arc::new(FakeState::default());
    let of_fake = Arc::clone(&seen);
    let fake = Fake::new(None, move |qid, sqe| {
        let seen = &of_fake;
        if seen.is_ready.load(SeqCst) && is_admin(qid, sqe, AdminOpcode::IDENTIFY) {
            seen.held.fetch_add(1, SeqCst);
            return Reply::Silence;
        }
        // All that may be sent is: the test is over.
        if is_admin(qid, sqe, AdminOpcode::KEEP_ALIVE) && seen.held.load(SeqCst) >= most {
            seen.alive.store(true, SeqCst);
            return Reply::HangUp;
        }
        Reply::Usual
    });
    let url = NvmeUrl::parse(&fake.url()).unwrap();
    let session =
        Session::connect(&url, &ConnectOptions { keep_alive_ms: 4000, ..patient() }).unwrap();
    seen.is_ready.store(true, SeqCst);
    std::thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| assert!(session.identify(1, Nsid(0)).is_err()));
        }
    });
    assert!(seen.alive.load(SeqCst), "a Keep Alive came although nothing was answered");
    assert_eq!(seen.held.load(SeqCst), most);
}
