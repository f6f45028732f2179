//! DH-HMAC-CHAP: both ends, each in the hands of a peer that sends arbitrary messages among those
//! that the other end sends. Whoever does not know the secret is never let in, and texts of secrets
//! that are read are written again alike.

use weft_fuzz::Input;
use weft_proto::nvme::auth::{
    AuthenticationVerdict, Concatenation, ControllerAuthentication, ControllerKeys, DhchapSecret,
    Group, Hash, HostAuthentication, HostKeys, HostStep, InterchangeKey, MESSAGE_BYTES_MAX,
    SecureChannel,
};

/// Longest message that is made up here, bytes.
const BYTES_MAX: usize = 700;

fn secret(byte: u8) -> DhchapSecret {
    DhchapSecret::of_key(&[byte; 32], Some(Hash::Sha256)).expect("a length that is allowed")
}

fn fill(bytes: &mut [u8]) {
    bytes
        .iter_mut()
        .zip(1..)
        .for_each(|(byte, n): (&mut u8, u32)| *byte = (n.wrapping_mul(167) >> 1) as u8);
}

/// Groups are slow: one is there now and then.
fn groups(input: &mut Input) -> Vec<Group> {
    if input.one_in(32) { vec![Group::Ffdhe2048, Group::Null] } else { vec![Group::Null] }
}

/// What is read as a secret or a key is written alike.
fn check_text(text: &str) {
    if let Ok(secret) = DhchapSecret::parse(text) {
        assert_eq!(secret.text().as_str(), text.trim());
    }
    if let Ok(key) = InterchangeKey::parse(text) {
        assert_eq!(key.text().as_str(), text.trim());
    }
}

pub fn run(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        check_text(text);
    }
    let mut input = Input::new(bytes);
    let is_right = input.flag();
    let controller = input.flag().then(|| secret(2));
    let host_keys = HostKeys {
        hostnqn: "nqn.2026-01.example.host:fuzz".into(),
        subnqn: "nqn.2026-01.example.weft:fuzz".into(),
        secret: secret(if is_right { 1 } else { 9 }),
        controller: controller.clone(),
        hashes: Hash::ALL.to_vec(),
        groups: groups(&mut input),
        concatenation: if input.one_in(4) { Concatenation::New } else { Concatenation::None },
    };
    let keys = ControllerKeys {
        hostnqn: host_keys.hostnqn.clone(),
        subnqn: host_keys.subnqn.clone(),
        secrets: vec![secret(1)],
        controller,
        hashes: Hash::ALL.to_vec(),
        groups: groups(&mut input),
        is_admin: input.flag(),
        has_tls: input.flag(),
        channel: input.pick(&[
            SecureChannel::None,
            SecureChannel::Allowed,
            SecureChannel::Required,
        ]),
    };
    let (mut host, mut step) = HostAuthentication::begin(host_keys, 7);
    let mut end = ControllerAuthentication::new(keys);
    for sequence in 1..64 {
        step = match step {
            HostStep::Send(message) => {
                let message = if input.flag() { input.bytes(BYTES_MAX) } else { message };
                let verdict = match end.sent(&message, sequence, &mut fill) {
                    AuthenticationVerdict::Compute(arithmetic) => end.computed(arithmetic.run()),
                    verdict => verdict,
                };
                assert!(is_right || !matches!(verdict, AuthenticationVerdict::Authenticated(_)));
                host.sent()
            }
            HostStep::Receive(bytes) => {
                let message = end
                    .fetch(bytes)
                    .filter(|_| !input.one_in(4))
                    .unwrap_or_else(|| input.bytes(BYTES_MAX));
                assert!(message.len() <= MESSAGE_BYTES_MAX);
                host.received(&message, sequence, &mut fill)
            }
            HostStep::Done(_) | HostStep::Failed(..) => return,
        };
        if input.is_empty() {
            return;
        }
    }
}
