//! The messages between a study and its agents: whatever a peer sends, it is taken whole, refused,
//! or waited for, and what it says it measured can be summed up.

use weft_bench::agents::{AgentMessage, StudyMessage, least, merged, message};
use weft_bench::limits::{AGENT_FIRST_BYTES_MAX, AGENT_MESSAGE_BYTES_MAX};
use weft_bench::workload::JobSpec;
use weft_block::{Atomicity, Geometry};

const GEOMETRY: Geometry = Geometry {
    block_bytes: 512,
    blocks: 8,
    padding_bytes: 0,
    optimal_blocks: 1,
    max_transfer_bytes: 4096,
    atomic: Atomicity::ONE_BLOCK,
};

pub fn run(bytes: &[u8]) {
    if let Ok(Some((request, length))) =
        message::decode::<StudyMessage>(bytes, AGENT_FIRST_BYTES_MAX)
    {
        assert!(length <= bytes.len() && length <= AGENT_FIRST_BYTES_MAX + message::LENGTH_BYTES);
        if let StudyMessage::Prepare { order } = &request {
            let _ = order.job(&[0, 1]);
        }
        check(&request, message::encode(&request).ok());
    }
    if let Ok(Some((answer, _))) = message::decode::<AgentMessage>(bytes, AGENT_MESSAGE_BYTES_MAX) {
        check(&answer, message::encode(&answer).ok());
        if let AgentMessage::Ended { measured } = answer {
            let all = vec![(0, (*measured).clone()), (1, *measured)];
            let report = merged("u", GEOMETRY, &JobSpec::default(), &all);
            let _ = (report.all().iops_mean(), report.counters(), report.failed());
            assert_eq!(least(all).len(), 1);
        }
    }
}

/// What was understood is understood again.
fn check<M: serde::de::DeserializeOwned + PartialEq + std::fmt::Debug>(
    one: &M,
    bytes: Option<Vec<u8>>,
) {
    let Some(bytes) = bytes else { return };
    let (again, _) =
        message::decode::<M>(&bytes, bytes.len()).expect("it is a message").expect("it is whole");
    assert_eq!(&again, one);
}
