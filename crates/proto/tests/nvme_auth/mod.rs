//! DH-HMAC-CHAP: both ends wired to each other, and each in the hands of a peer that breaks the
//! rules.

mod pair;
mod violations;

use weft_proto::nvme::auth::{
    AuthenticationVerdict, Concatenation, ControllerAuthentication, ControllerKeys, DhchapSecret,
    FailureReason, GeneratedPsk, Group, Hash, HostAuthentication, HostKeys, HostStep, Random,
    SecureChannel,
};

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
const SUBSYSTEM: &str = "nqn.2014-08.org.example:disks";

/// Numbers that tests can repeat.
struct Numbers(u64);

impl Numbers {
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            *byte = (self.0 >> 56) as u8;
        }
    }
}

fn secret(byte: u8, transformation: Option<Hash>) -> DhchapSecret {
    DhchapSecret::of_key(&[byte; 48], transformation).unwrap()
}

fn host_keys() -> HostKeys {
    HostKeys {
        hostnqn: HOST.into(),
        subnqn: SUBSYSTEM.into(),
        secret: secret(1, Some(Hash::Sha256)),
        controller: None,
        hashes: Hash::ALL.into(),
        groups: Group::ALL.into(),
        concatenation: Concatenation::None,
    }
}

fn controller_keys() -> ControllerKeys {
    ControllerKeys {
        hostnqn: HOST.into(),
        subnqn: SUBSYSTEM.into(),
        secrets: vec![secret(1, Some(Hash::Sha256))],
        controller: None,
        hashes: Hash::ALL.into(),
        groups: vec![Group::Null],
        is_admin: true,
        has_tls: false,
        channel: SecureChannel::None,
    }
}

/// Sends the controller a message, and computes what it asks for.
fn told(
    end: &mut ControllerAuthentication,
    message: &[u8],
    sequence: u32,
    random: Random<'_>,
) -> AuthenticationVerdict {
    match end.sent(message, sequence, random) {
        AuthenticationVerdict::Compute(arithmetic) => end.computed(arithmetic.run()),
        verdict => verdict,
    }
}

/// Outcome of an exchange, at the host and at the controller.
struct Ended {
    host: Result<Option<GeneratedPsk>, (FailureReason, bool)>,
    controller: Option<Result<Option<GeneratedPsk>, FailureReason>>,
    /// Every message, in order.
    messages: Vec<Vec<u8>>,
}

/// Lets two ends talk; `change` may change each message on its way, by its number.
fn talk(
    host: HostKeys,
    controller: ControllerKeys,
    mut change: impl FnMut(usize, &mut Vec<u8>),
) -> Ended {
    let mut numbers = Numbers(7);
    let (mut host, mut step) = HostAuthentication::begin(host, 0x1234);
    let mut controller = ControllerAuthentication::new(controller);
    let mut ended =
        Ended { host: Err((FailureReason(0), false)), controller: None, messages: Vec::new() };
    loop {
        step = match step {
            HostStep::Send(mut message) => {
                change(ended.messages.len(), &mut message);
                ended.messages.push(message.clone());
                match told(&mut controller, &message, 77, &mut |bytes| numbers.fill(bytes)) {
                    AuthenticationVerdict::Next | AuthenticationVerdict::Compute(_) => {}
                    AuthenticationVerdict::Authenticated(psk) => ended.controller = Some(Ok(psk)),
                    AuthenticationVerdict::Failed(reason)
                    | AuthenticationVerdict::GivenUp(reason) => {
                        ended.controller = Some(Err(reason))
                    }
                }
                host.sent()
            }
            HostStep::Receive(bytes) => {
                let mut message = controller.fetch(bytes).expect("it is the controller's turn");
                change(ended.messages.len(), &mut message);
                ended.messages.push(message.clone());
                host.received(&message, 99, &mut |bytes| numbers.fill(bytes))
            }
            HostStep::Done(psk) => {
                ended.host = Ok(psk);
                return ended;
            }
            HostStep::Failed(reason, by_peer) => {
                ended.host = Err((reason, by_peer));
                return ended;
            }
        };
    }
}
