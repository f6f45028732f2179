//! Bytes of both ends of a connection, cut and lost anywhere, through what blanks secrets in
//! captures: nothing is added, and no more than a message is held back.

use libfuzzer_sys::arbitrary::Arbitrary;
use weft_proto::capture::{End, Output, Protocol, Redactor};

#[derive(Arbitrary, Debug)]
pub struct Input {
    protocol: u8,
    is_known: bool,
    steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    Host(Vec<u8>),
    Target(Vec<u8>),
    Lose(bool),
}

pub fn run(input: Input) {
    let protocol = match input.protocol % 3 {
        0 => Protocol::NvmeTcp,
        1 => Protocol::Iscsi,
        _ => Protocol::Nbd,
    };
    let mut redactor = Redactor::new(protocol, input.is_known);
    let (mut given, mut shown) = (0, 0);
    for step in &input.steps {
        let (from, bytes) = match step {
            Step::Host(bytes) => (End::Host, bytes),
            Step::Target(bytes) => (End::Target, bytes),
            Step::Lose(is_host) => {
                redactor.lose(if *is_host { End::Host } else { End::Target });
                continue;
            }
        };
        let mut out = Output::default();
        redactor.pass(from, bytes, &mut out);
        given += bytes.len();
        shown += out.bytes.len() + out.withheld as usize;
        assert!(shown <= given, "nothing is added");
    }
    let _ = redactor.host();
}
