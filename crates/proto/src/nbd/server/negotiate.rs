//! Negotiation: fixed newstyle, one option after the other.

use super::options::{How, Queries, Wanted};
use super::transmit::ALLOCATION_CONTEXT;
use super::{After, ExportOffer, NbdEngine, Phase, ServerEvent, Step};
use crate::limits::NBD_OPTION_BYTES_MAX;
use crate::nbd::code::{
    ALLOCATION, ClientFlags, HandshakeFlags, InfoType, OptionCode, ReplyCode, TransmissionFlags,
};
use crate::nbd::export::ExportInfo;
use crate::nbd::wire::{EXPORT_NAME_ZEROES, INIT_MAGIC, OPTION_BYTES, OPTION_MAGIC, Reader, text};
use crate::nbd::{Form, Violation};
use crate::stream::{HEADER_MAX, Rx};

impl NbdEngine {
    /// Queues the greeting.
    pub(super) fn greet(&mut self) {
        self.said.extend_from_slice(&INIT_MAGIC.to_be_bytes());
        self.said.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
        self.said.extend_from_slice(
            &HandshakeFlags::FIXED_NEWSTYLE.with(HandshakeFlags::NO_ZEROES).0.to_be_bytes(),
        );
    }

    pub(super) fn client_flags(&mut self, bytes: &[u8]) -> Step {
        let Some(flags) = Reader(bytes).u32() else { return Step::Next(0, Rx::More { need: 4 }) };
        if flags & !ClientFlags::FIXED_NEWSTYLE.with(ClientFlags::NO_ZEROES).0 != 0 {
            return self.violate(Violation::ClientFlags(flags));
        }
        self.no_zeroes = ClientFlags(flags).has(ClientFlags::NO_ZEROES);
        self.phase = Phase::Option;
        Step::Used(4)
    }

    pub(super) fn option(&mut self, bytes: &[u8]) -> Step {
        if self.is_full() {
            return Step::Next(0, Rx::Event(ServerEvent::Full));
        }
        let mut reader = Reader(bytes);
        let (Some(magic), Some(option), Some(len)) = (reader.u64(), reader.u32(), reader.u32())
        else {
            return Step::Next(0, Rx::More { need: OPTION_BYTES });
        };
        if magic != OPTION_MAGIC {
            return self.violate(Violation::OptionMagic);
        }
        let option = OptionCode(option);
        self.option_data.clear();
        if len == 0 {
            return self.run_option(OPTION_BYTES, option);
        }
        if len as usize > NBD_OPTION_BYTES_MAX {
            self.after = After::TooBig(option);
            return Step::Next(OPTION_BYTES, Rx::Discard { len });
        }
        self.phase = Phase::OptionData { option, left: len };
        Step::Used(OPTION_BYTES)
    }

    pub(super) fn option_data(&mut self, bytes: &[u8], option: OptionCode, left: u32) -> Step {
        let now = bytes.len().min(left as usize);
        self.option_data.extend_from_slice(&bytes[..now]);
        let left = left - now as u32;
        if left > 0 {
            self.phase = Phase::OptionData { option, left };
            return Step::Next(now, Rx::More { need: (left as usize).min(HEADER_MAX) });
        }
        self.run_option(now, option)
    }

    /// An option is complete.
    fn run_option(&mut self, used: usize, option: OptionCode) -> Step {
        self.phase = Phase::Option;
        let data = core::mem::take(&mut self.option_data);
        let next = self.execute(option, &data);
        self.option_data = data;
        match next {
            None => Step::Used(used),
            Some(Rx::Closed) if self.violation.is_none() => {
                self.phase = Phase::Closed;
                Step::Next(used, Rx::Closed)
            }
            Some(next) => Step::Next(used, next),
        }
    }

    fn execute(&mut self, option: OptionCode, data: &[u8]) -> Option<Rx<ServerEvent>> {
        if self.config.tls
            && !self.secure
            && !matches!(option, OptionCode::STARTTLS | OptionCode::ABORT)
        {
            return self.demand_tls(option);
        }
        match option {
            OptionCode::ABORT => {
                self.reply(option, ReplyCode::ACK, &[]);
                return Some(Rx::Closed);
            }
            OptionCode::EXPORT_NAME => return self.export_name(data),
            OptionCode::INFO => return self.info(option, How::Info, data),
            OptionCode::GO => return self.info(option, How::Go, data),
            OptionCode::LIST_META_CONTEXT | OptionCode::SET_META_CONTEXT => {
                self.meta_context(option, data)
            }
            OptionCode::STARTTLS
            | OptionCode::LIST
            | OptionCode::STRUCTURED_REPLY
            | OptionCode::EXTENDED_HEADERS => {
                if !data.is_empty() {
                    self.reply(option, ReplyCode::ERR_INVALID, &[b"this option has no data"]);
                    return None;
                }
                return self.bare_option(option);
            }
            _ => self.reply(option, ReplyCode::ERR_UNSUP, &[]),
        }
        None
    }

    fn demand_tls(&mut self, option: OptionCode) -> Option<Rx<ServerEvent>> {
        self.bare = true;
        if option == OptionCode::EXPORT_NAME {
            return self.no_such_export();
        }
        self.reply(option, ReplyCode::ERR_TLS_REQD, &[b"start TLS first"]);
        None
    }

    /// Options without data.
    fn bare_option(&mut self, option: OptionCode) -> Option<Rx<ServerEvent>> {
        match option {
            OptionCode::STARTTLS if !self.config.tls => {
                self.reply(option, ReplyCode::ERR_POLICY, &[b"this server is not set up for TLS"]);
            }
            OptionCode::STARTTLS if self.secure => {
                self.reply(option, ReplyCode::ERR_INVALID, &[b"TLS is already in use"])
            }
            OptionCode::STARTTLS => {
                self.reply(option, ReplyCode::ACK, &[]);
                self.phase = Phase::Tls;
                return Some(Rx::Event(ServerEvent::StartTls));
            }
            OptionCode::LIST => self.list(),
            OptionCode::STRUCTURED_REPLY if self.form == Form::Extended => {
                self.reply(option, ReplyCode::ERR_EXT_HEADER_REQD, &[]);
            }
            OptionCode::STRUCTURED_REPLY => {
                self.form = Form::Structured;
                self.reply(option, ReplyCode::ACK, &[]);
            }
            _ => {
                self.form = Form::Extended;
                self.reply(option, ReplyCode::ACK, &[]);
            }
        }
        None
    }

    fn list(&mut self) {
        let exports = self.config.exports.clone();
        for listed in exports.iter() {
            let (name, text) = (listed.name.as_bytes(), listed.description.as_bytes());
            self.reply(
                OptionCode::LIST,
                ReplyCode::SERVER,
                &[&(name.len() as u32).to_be_bytes(), name, text],
            );
        }
        self.reply(OptionCode::LIST, ReplyCode::ACK, &[]);
    }

    /// Returns whether there is an export of this name.
    fn is_known(&self, name: &str) -> bool {
        name.is_empty() || self.config.exports.iter().any(|listed| listed.name == name)
    }

    fn meta_context(&mut self, option: OptionCode, data: &[u8]) {
        let set = option == OptionCode::SET_META_CONTEXT;
        if set {
            self.context = None;
        }
        let queries = Queries::decode(data).filter(|_| self.form != Form::Simple);
        let Some(queries) = queries else { return self.reply(option, ReplyCode::ERR_INVALID, &[]) };
        if !self.is_known(queries.export) {
            return self.reply(option, ReplyCode::ERR_UNKNOWN, &[]);
        }
        let (id, meant) = if set {
            (ALLOCATION_CONTEXT, queries.allocation)
        } else {
            (0, queries.none || queries.allocation || queries.base)
        };
        if set && meant {
            self.context = Some(queries.export.to_owned());
        }
        if meant {
            self.reply(
                option,
                ReplyCode::META_CONTEXT,
                &[&id.to_be_bytes(), ALLOCATION.as_bytes()],
            );
        }
        self.reply(option, ReplyCode::ACK, &[]);
    }

    fn no_such_export(&mut self) -> Option<Rx<ServerEvent>> {
        self.violation = Some(Violation::ExportName);
        self.phase = Phase::Closed;
        Some(Rx::Closed)
    }

    fn export_name(&mut self, data: &[u8]) -> Option<Rx<ServerEvent>> {
        let Some(name) = text(data).filter(|_| self.form != Form::Extended) else {
            return self.no_such_export();
        };
        self.wanted = Wanted { how: How::Name, name: name.to_owned(), ..Wanted::default() };
        self.phase = Phase::Answer;
        Some(Rx::Event(ServerEvent::Select))
    }

    fn info(&mut self, option: OptionCode, how: How, data: &[u8]) -> Option<Rx<ServerEvent>> {
        let Some(wanted) = Wanted::decode(how, data) else {
            self.reply(option, ReplyCode::ERR_INVALID, &[]);
            return None;
        };
        self.wanted = wanted;
        self.phase = Phase::Answer;
        Some(Rx::Event(ServerEvent::Select))
    }

    /// The name of the export that [`ServerEvent::Select`] is about; empty for the default.
    pub fn wanted(&self) -> &str {
        &self.wanted.name
    }

    /// Returns whether the export of [`ServerEvent::Select`] will be used once it is offered, and
    /// not only described.
    pub fn wants_to_go(&self) -> bool {
        self.wanted.how != How::Info
    }

    /// Answers [`ServerEvent::Select`]: with what is known of the export, or with an error code and
    /// a word of explanation.
    pub fn answer(&mut self, offer: Result<ExportOffer<'_>, (ReplyCode, &str)>) {
        if self.phase != Phase::Answer {
            return;
        }
        self.phase = Phase::Option;
        let option = match self.wanted.how {
            How::Info => OptionCode::INFO,
            How::Go => OptionCode::GO,
            How::Name => OptionCode::EXPORT_NAME,
        };
        match offer {
            Ok(offer) => self.accept(option, &offer),
            Err(_) if option == OptionCode::EXPORT_NAME => {
                let _ = self.no_such_export();
            }
            Err((code, why)) => self.reply(option, code, &[why.as_bytes()]),
        }
    }

    fn accept(&mut self, option: OptionCode, offer: &ExportOffer<'_>) {
        let fragments = self.form != Form::Simple;
        let info = ExportInfo {
            flags: offer.info.flags.with_if(TransmissionFlags::SEND_DF, fragments),
            ..offer.info
        };
        let (size, flags) = (info.size_bytes.to_be_bytes(), info.flags.0.to_be_bytes());
        if self.wanted.how == How::Name {
            self.said.extend_from_slice(&size);
            self.said.extend_from_slice(&flags);
            let zeroes = if self.no_zeroes { 0 } else { EXPORT_NAME_ZEROES };
            self.said.resize(self.said.len() + zeroes, 0);
        } else {
            let kind = |kind: InfoType| kind.0.to_be_bytes();
            self.reply(option, ReplyCode::INFO, &[&kind(InfoType::EXPORT), &size, &flags]);
            if self.wanted.canonical_name {
                self.reply(
                    option,
                    ReplyCode::INFO,
                    &[&kind(InfoType::NAME), offer.listed.name.as_bytes()],
                );
            }
            if self.wanted.description {
                self.reply(
                    option,
                    ReplyCode::INFO,
                    &[&kind(InfoType::DESCRIPTION), offer.listed.description.as_bytes()],
                );
            }
            if self.wanted.sizes {
                let sizes = [info.sizes.minimum, info.sizes.preferred, info.sizes.payload_max]
                    .map(u32::to_be_bytes);
                self.reply(
                    option,
                    ReplyCode::INFO,
                    &[&kind(InfoType::BLOCK_SIZE), sizes.as_flattened()],
                );
            }
            self.reply(option, ReplyCode::ACK, &[]);
        }
        if self.wanted.how != How::Info {
            self.export = info;
            self.block_status = self.context.as_deref() == Some(self.wanted.name.as_str());
            self.phase = Phase::Requests;
        }
    }

    /// TLS is in use now: what was agreed on in plain text is forgotten.
    pub fn secured(&mut self) {
        if self.phase == Phase::Tls {
            (self.phase, self.secure, self.form, self.context) =
                (Phase::Option, true, Form::Simple, None);
        }
    }
}
