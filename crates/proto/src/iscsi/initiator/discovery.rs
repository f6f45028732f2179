//! SendTargets in a discovery session (RFC 7143 appendix C).

use super::Initiator;
use super::command::{DiscoveredTarget, InitiatorEvent};
use super::fault::{SessionFault, Violation};
use super::receive::Bhs;
use crate::iscsi::deviation::Deviation;
use crate::iscsi::pdu::{Lun, TaskTag, TextFlags, TextRequest, TextResponse};
use crate::iscsi::text::{Key, Writer, pairs, readable};
use crate::limits::{ISCSI_TARGETS_BYTES_MAX, ISCSI_TEXT_EXCHANGES_MAX};

/// Names the request.
const TASK: TaskTag = TaskTag(0x8000_0001);

impl Initiator {
    /// Asks for all targets.
    pub(super) fn start_discovery(&mut self) {
        let mut text = Writer::default();
        text.put(Key::SendTargets.name(), "All");
        self.text_request(Lun(0), TaskTag::NONE, &text);
    }

    fn text_request(&mut self, lun: Lun, transfer: TaskTag, text: &Writer) {
        let request = TextRequest {
            immediate: true,
            flags: TextFlags::FINAL,
            lun,
            task: TASK,
            transfer,
            cmd_sn: self.window.cmd_sn,
            exp_stat_sn: self.window.exp_stat_sn,
        };
        self.send_text(&request.encode(text.text().len() as u32), text.text());
    }

    pub(super) fn text_response(
        &mut self,
        bhs: &Bhs,
        data: &[u8],
    ) -> Result<Option<InitiatorEvent>, SessionFault> {
        let response = TextResponse::decode(bhs);
        self.window.update(response.exp_cmd_sn, response.max_cmd_sn);
        self.window.status(response.stat_sn);
        if response.task != TASK || self.config.target.is_some() {
            return Err(Violation::Task.into());
        }
        let discovery = &mut self.discovery;
        discovery.exchanges += 1;
        discovery.text.extend_from_slice(data);
        if discovery.text.len() > ISCSI_TARGETS_BYTES_MAX
            || discovery.exchanges > ISCSI_TEXT_EXCHANGES_MAX
        {
            return Err(Violation::Endless.into());
        }
        if !response.flags.has(TextFlags::FINAL) && response.transfer != TaskTag::NONE {
            self.text_request(response.lun, response.transfer, &Writer::default());
            return Ok(None);
        }
        let text = core::mem::take(&mut self.discovery.text);
        self.deviations.add_text(&text);
        let (targets, is_odd) = targets(&readable(&text));
        if is_odd {
            self.deviations.add(Deviation::NotAPair);
        }
        self.discovery.targets = targets;
        Ok(Some(InitiatorEvent::Targets))
    }

    /// The targets that were discovered, after [`InitiatorEvent::Targets`].
    pub fn take_targets(&mut self) -> Vec<DiscoveredTarget> {
        core::mem::take(&mut self.discovery.targets)
    }
}

/// Each TargetName, with the addresses behind it; and whether something that is not a pair was
/// skipped.
fn targets(text: &[u8]) -> (Vec<DiscoveredTarget>, bool) {
    let mut targets: Vec<DiscoveredTarget> = Vec::new();
    let mut is_odd = false;
    for pair in pairs(text) {
        let Ok((name, value)) = pair else {
            is_odd = true;
            continue;
        };
        match Key::named(name) {
            Some(Key::TargetName) => {
                targets.push(DiscoveredTarget { name: value.to_owned(), ..Default::default() })
            }
            Some(Key::TargetAddress) => {
                if let Some(target) = targets.last_mut() {
                    target.addresses.push(value.to_owned());
                }
            }
            _ => {}
        }
    }
    (targets, is_odd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_belong_to_the_name_before() {
        let text = b"TargetName=iqn.a\0TargetAddress=10.0.0.1:3260,1\0TargetAddress=[::1]:3260,1\0TargetName=iqn.b\0";
        let (targets, is_odd) = targets(text);
        assert_eq!((targets.len(), is_odd), (2, false));
        assert_eq!((targets[0].name.as_str(), targets[0].addresses.len()), ("iqn.a", 2));
        assert!(targets[1].addresses.is_empty());
    }

    #[test]
    fn what_is_not_a_pair_hides_no_target() {
        let good = "TargetName=iqn.a\0TargetAddress=10.0.0.1:3260,1\0";
        for odd in ["no pair", "=value", "Target Name=iqn.b", "TargetAddress"] {
            for text in [format!("{odd}\0{good}"), format!("{good}{odd}\0")] {
                let (found, is_odd) = targets(text.as_bytes());
                assert!(is_odd, "{text:?}");
                assert_eq!((found.len(), found[0].addresses.len()), (1, 1), "{text:?}");
            }
        }
    }
}
