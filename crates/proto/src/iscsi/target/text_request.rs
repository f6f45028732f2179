//! Text requests: SendTargets, and keys that are declared in the full feature phase (RFC 7143
//! §11.10, appendix C).

use super::text_exchange::TextExchange;
use super::{Portals, TargetConnection, Violation};
use crate::iscsi::pdu::{
    BHS_BYTES, Lun, RejectReason, TaskTag, TextFlags, TextRequest, TextResponse,
};
use crate::iscsi::text::{
    Key, KeyAnswer, NOT_UNDERSTOOD, REJECT, Writer, negotiate, pairs, readable,
};
use crate::limits::REPLIES_BYTES_MAX;

/// The transfer tag of a text exchange that goes on; there is but one at a time.
const TEXT_TAG: TaskTag = TaskTag(0);

impl TargetConnection {
    /// §11.10.
    pub(super) fn text_request(
        &mut self,
        request: &TextRequest,
        data: &[u8],
        bhs: &[u8; BHS_BYTES],
    ) -> Result<(), Violation> {
        let begins_anew = request.transfer == TaskTag::NONE;
        let goes_on = request.transfer == TEXT_TAG && self.text.task == Some(request.task);
        let is_torn = request.flags.has(TextFlags::CONTINUE) && request.flags.has(TextFlags::FINAL);
        if request.task == TaskTag::NONE || !(begins_anew || goes_on) || is_torn {
            return self.reject(RejectReason::PROTOCOL_ERROR, bhs);
        }
        let mut exchange = core::mem::take(&mut self.text);
        if begins_anew {
            exchange = TextExchange { task: Some(request.task), ..TextExchange::default() };
        }
        exchange.collected.push(data)?;
        if request.flags.has(TextFlags::CONTINUE) {
            self.text = exchange;
            return self.respond_text(request, TextFlags::NONE, &[], TEXT_TAG);
        }
        if exchange.rest.is_empty() {
            let text = core::mem::take(&mut exchange.collected);
            exchange.rest = self.answer_text(text.text())?;
        }
        let most = (self.parameters.max_send_bytes as usize).min(exchange.rest.len());
        let rest = exchange.rest.split_off(most);
        let piece = core::mem::replace(&mut exchange.rest, rest);
        if exchange.rest.is_empty() && request.flags.has(TextFlags::FINAL) {
            return self.respond_text(request, TextFlags::FINAL, &piece, TaskTag::NONE);
        }
        let is_whole = exchange.rest.is_empty();
        self.text = exchange;
        if is_whole {
            return self.respond_text(request, TextFlags::NONE, &piece, TEXT_TAG);
        }
        self.respond_text(request, TextFlags::CONTINUE, &piece, TEXT_TAG)
    }

    fn respond_text(
        &mut self,
        request: &TextRequest,
        flags: TextFlags,
        text: &[u8],
        transfer: TaskTag,
    ) -> Result<(), Violation> {
        let response = TextResponse {
            flags,
            lun: Lun(0),
            task: request.task,
            transfer,
            stat_sn: self.stat_sn.take(),
            exp_cmd_sn: self.exp_cmd_sn,
            max_cmd_sn: self.max_cmd_sn(),
        };
        self.reply(&response.encode(text.len() as u32), text)
    }

    fn answer_text(&mut self, text: &[u8]) -> Result<Vec<u8>, Violation> {
        let mut reply = Writer::default();
        self.deviations.add_text(text);
        for pair in pairs(&readable(text)) {
            let (name, value) = pair?;
            if reply.text().len() > REPLIES_BYTES_MAX {
                return Err(Violation::Flood);
            }
            match Key::named(name) {
                None => reply.put(name, NOT_UNDERSTOOD),
                Some(Key::SendTargets) => self.send_targets(value, &mut reply),
                Some(key @ Key::MaxRecvDataSegmentLength) => {
                    let config = &self.config;
                    if let KeyAnswer::Word(word) =
                        negotiate(key, value, &config.offer, &mut self.parameters)
                    {
                        reply.put(name, word);
                    }
                }
                Some(Key::InitiatorAlias) => {}
                Some(key) if key.is_targets_own() => {}
                Some(_) => reply.put(name, REJECT),
            }
        }
        Ok(reply.into_bytes())
    }

    /// Appendix C: all targets in a discovery session only; this one in any.
    fn send_targets(&self, value: &str, reply: &mut Writer) {
        let name = self.config.name.as_str();
        match value {
            "All" if !self.is_discovery() => return reply.put(Key::SendTargets.name(), REJECT),
            "All" => {}
            "" if self.is_discovery() => return reply.put(Key::SendTargets.name(), REJECT),
            "" => {}
            other if other.to_lowercase() == name => {}
            _ => return,
        }
        reply.put(Key::TargetName.name(), name);
        let Portals { own, others, .. } = &self.portals;
        let is_new = |(portal, _): &&(String, u16)| own.iter().all(|(known, _)| known != portal);
        for (portal, group) in own.iter().chain(others.iter().filter(is_new)) {
            reply.put(Key::TargetAddress.name(), &format!("{portal},{group}"));
        }
    }
}
