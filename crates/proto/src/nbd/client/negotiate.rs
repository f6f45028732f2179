//! Negotiation of TLS, the form of headers, block status and the export, one option after the
//! other.

use super::negotiation_stage::{NegotiationStage, OptionRefusal};
use super::{ClientEvent, NbdClient, Phase, Step};
use crate::limits::{NBD_OPTION_BYTES_MAX, NBD_OPTION_REPLIES_MAX};
use crate::nbd::code::{
    ALLOCATION, ClientFlags, HandshakeFlags, InfoType, OptionCode, ReplyCode, TransmissionFlags,
};
use crate::nbd::export::BlockSizes;
use crate::nbd::wire::{
    EXPORT_NAME_ZEROES, GREETING_BYTES, INIT_MAGIC, OLDSTYLE_GREETING_BYTES, OLDSTYLE_MAGIC,
    OPTION_MAGIC, OPTION_REPLY_BYTES, OPTION_REPLY_MAGIC, Reader, put_option, text,
};
use crate::nbd::{Form, Violation};
use crate::stream::{HEADER_MAX, Rx};

impl NbdClient {
    pub(super) fn negotiate(&mut self, stage: NegotiationStage, bytes: &[u8]) -> Step {
        match stage {
            NegotiationStage::Greeting => self.greeting(bytes),
            NegotiationStage::Reply { option, count } => self.option_reply(bytes, option, count),
            NegotiationStage::Data { option, count, reply, left } => {
                self.option_reply_data(bytes, option, count, reply, left)
            }
            NegotiationStage::Tls if bytes.is_empty() => Step::Next(0, Rx::More { need: 1 }),
            NegotiationStage::Tls => self.violate(Violation::PlainTextBeforeTls),
            NegotiationStage::NameAnswer => self.name_answer(bytes),
            NegotiationStage::Zeroes => {
                self.phase = Phase::Negotiation(NegotiationStage::Ready);
                Step::Next(0, Rx::Discard { len: EXPORT_NAME_ZEROES as u32 })
            }
            NegotiationStage::Ready => {
                self.phase = Phase::Transmission;
                Step::Next(0, Rx::Event(ClientEvent::Ready))
            }
            NegotiationStage::Refused => {
                self.phase = Phase::Closed;
                Step::Next(0, Rx::Closed)
            }
        }
    }

    fn greeting(&mut self, bytes: &[u8]) -> Step {
        let mut reader = Reader(bytes);
        let (first, second) = (reader.u64(), reader.u64());
        if first.is_some_and(|magic| magic != INIT_MAGIC) {
            return self.violate(Violation::NotNbd);
        }
        match second {
            Some(OLDSTYLE_MAGIC) => return self.oldstyle(&mut reader),
            Some(magic) if magic != OPTION_MAGIC => return self.violate(Violation::NotNbd),
            _ => {}
        }
        let Some(flags) = reader.u16().map(HandshakeFlags) else {
            return Step::Next(0, Rx::More { need: GREETING_BYTES });
        };
        let fixed = flags.has(HandshakeFlags::FIXED_NEWSTYLE);
        self.no_zeroes = flags.has(HandshakeFlags::NO_ZEROES);
        let answer = ClientFlags::default()
            .with_if(ClientFlags::FIXED_NEWSTYLE, fixed)
            .with_if(ClientFlags::NO_ZEROES, self.no_zeroes);
        self.said.extend_from_slice(&answer.0.to_be_bytes());
        match (fixed, self.config.tls) {
            (true, true) => self.ask(OptionCode::STARTTLS, &[]),
            (true, false) => self.ask_form(self.config.form),
            (false, true) => {
                return self.refuse(
                    GREETING_BYTES,
                    OptionCode::STARTTLS,
                    ReplyCode::ERR_UNSUP,
                    String::new(),
                );
            }
            (false, false) => self.ask_name(),
        }
        Step::Used(GREETING_BYTES)
    }

    /// A server that negotiates nothing: it has one export, without a name, and says at once what
    /// that is.
    fn oldstyle(&mut self, rest: &mut Reader<'_>) -> Step {
        let (Some(size), Some(flags)) = (rest.u64(), rest.u32()) else {
            return Step::Next(0, Rx::More { need: OLDSTYLE_GREETING_BYTES });
        };
        let refused = match (self.config.tls, self.config.export.is_empty()) {
            (true, _) => Some((OptionCode::STARTTLS, ReplyCode::ERR_UNSUP)),
            (_, false) => Some((OptionCode::GO, ReplyCode::ERR_UNKNOWN)),
            _ => None,
        };
        if let Some((option, code)) = refused {
            let step = self.refuse(
                OLDSTYLE_GREETING_BYTES,
                option,
                code,
                "an oldstyle server has one export, without a name".into(),
            );
            // It takes no options, not even the one that takes leave.
            self.said.clear();
            return step;
        }
        // The upper half are the flags of a handshake that there is not.
        (self.export.size_bytes, self.export.flags) = (size, TransmissionFlags(flags as u16));
        self.phase = Phase::Negotiation(NegotiationStage::Zeroes);
        Step::Used(OLDSTYLE_GREETING_BYTES)
    }

    /// Sends an option.
    fn ask(&mut self, option: OptionCode, data: &[u8]) {
        put_option(&mut self.said, option.0, data);
        self.phase = Phase::Negotiation(NegotiationStage::Reply { option, count: 0 });
    }

    /// Asks for a form of headers, or else for the export.
    fn ask_form(&mut self, form: Form) {
        match form {
            Form::Extended => self.ask(OptionCode::EXTENDED_HEADERS, &[]),
            Form::Structured => self.ask(OptionCode::STRUCTURED_REPLY, &[]),
            Form::Simple => self.ask_export(),
        }
    }

    /// Asks for block status, which replies of simple form cannot tell.
    fn ask_allocation(&mut self) {
        let text = |text: &str| [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat();
        let data = [text(&self.config.export), vec![0, 0, 0, 1], text(ALLOCATION)].concat();
        self.ask(OptionCode::SET_META_CONTEXT, &data);
    }

    fn ask_export(&mut self) {
        let name = self.config.export.as_bytes();
        let (len, sizes) =
            ((name.len() as u32).to_be_bytes(), InfoType::BLOCK_SIZE.0.to_be_bytes());
        let data = [&len, name, &1u16.to_be_bytes(), &sizes].concat();
        self.ask(OptionCode::GO, &data);
    }

    /// Asks by the option of servers that do not know a better one.
    fn ask_name(&mut self) {
        let name = self.config.export.clone();
        self.ask(OptionCode::EXPORT_NAME, name.as_bytes());
        self.phase = Phase::Negotiation(NegotiationStage::NameAnswer);
    }

    fn name_answer(&mut self, bytes: &[u8]) -> Step {
        let mut reader = Reader(bytes);
        let (Some(size), Some(flags)) = (reader.u64(), reader.u16()) else {
            return Step::Next(0, Rx::More { need: 10 });
        };
        (self.export.size_bytes, self.export.flags) = (size, TransmissionFlags(flags));
        self.phase = Phase::Negotiation(if self.no_zeroes {
            NegotiationStage::Ready
        } else {
            NegotiationStage::Zeroes
        });
        Step::Used(10)
    }

    fn option_reply(&mut self, bytes: &[u8], option: OptionCode, count: u32) -> Step {
        let mut reader = Reader(bytes);
        let (Some(magic), Some(of), Some(reply), Some(len)) =
            (reader.u64(), reader.u32(), reader.u32(), reader.u32())
        else {
            return Step::Next(0, Rx::More { need: OPTION_REPLY_BYTES });
        };
        let (of, reply) = (OptionCode(of), ReplyCode(reply));
        if magic != OPTION_REPLY_MAGIC {
            return self.violate(Violation::OptionReplyMagic);
        }
        if of != option {
            return self.violate(Violation::OptionMismatch(of));
        }
        if len as usize > NBD_OPTION_BYTES_MAX || count == NBD_OPTION_REPLIES_MAX {
            return self.violate(Violation::OptionReply(option));
        }
        self.reply_data.clear();
        if len == 0 {
            return self.option_answered(OPTION_REPLY_BYTES, option, count, reply);
        }
        self.phase = Phase::Negotiation(NegotiationStage::Data { option, count, reply, left: len });
        Step::Used(OPTION_REPLY_BYTES)
    }

    fn option_reply_data(
        &mut self,
        bytes: &[u8],
        option: OptionCode,
        count: u32,
        reply: ReplyCode,
        left: u32,
    ) -> Step {
        let now = bytes.len().min(left as usize);
        self.reply_data.extend_from_slice(&bytes[..now]);
        let left = left - now as u32;
        if left > 0 {
            self.phase = Phase::Negotiation(NegotiationStage::Data { option, count, reply, left });
            return Step::Next(now, Rx::More { need: (left as usize).min(HEADER_MAX) });
        }
        self.option_answered(now, option, count, reply)
    }

    /// A reply to an option is complete.
    fn option_answered(
        &mut self,
        used: usize,
        option: OptionCode,
        count: u32,
        reply: ReplyCode,
    ) -> Step {
        if reply.is_error() {
            return self.option_failed(used, option, reply);
        }
        match (option, reply) {
            (OptionCode::GO, ReplyCode::INFO) => {
                self.phase =
                    Phase::Negotiation(NegotiationStage::Reply { option, count: count + 1 });
                return if self.learn() {
                    Step::Used(used)
                } else {
                    self.violate(Violation::OptionReply(option))
                };
            }
            (OptionCode::GO, ReplyCode::ACK) => return self.accepted(used),
            (OptionCode::STARTTLS, ReplyCode::ACK) => {
                self.phase = Phase::Negotiation(NegotiationStage::Tls);
                return Step::Next(used, Rx::Event(ClientEvent::StartTls));
            }
            (OptionCode::SET_META_CONTEXT, ReplyCode::META_CONTEXT) => {
                self.phase =
                    Phase::Negotiation(NegotiationStage::Reply { option, count: count + 1 });
                return match self.learn_allocation() {
                    true => Step::Used(used),
                    false => self.violate(Violation::OptionReply(option)),
                };
            }
            (OptionCode::SET_META_CONTEXT, ReplyCode::ACK) => {
                self.ask_export();
                return Step::Used(used);
            }
            (OptionCode::EXTENDED_HEADERS, ReplyCode::ACK) => self.form = Form::Extended,
            (OptionCode::STRUCTURED_REPLY, ReplyCode::ACK) => self.form = Form::Structured,
            _ => return self.violate(Violation::OptionReply(option)),
        }
        self.ask_allocation();
        Step::Used(used)
    }

    fn option_failed(&mut self, used: usize, option: OptionCode, reply: ReplyCode) -> Step {
        match option {
            // A server that wants TLS says so to every option; the question for the export gets the
            // best answer.
            OptionCode::EXTENDED_HEADERS if reply != ReplyCode::ERR_TLS_REQD => {
                self.ask_form(Form::Structured)
            }
            OptionCode::STRUCTURED_REPLY | OptionCode::EXTENDED_HEADERS => {
                self.ask_form(Form::Simple)
            }
            // It goes without. What is wrong with the export, GO tells.
            OptionCode::SET_META_CONTEXT => {
                self.allocation = None;
                self.ask_export();
            }
            OptionCode::GO if reply == ReplyCode::ERR_UNSUP && self.form != Form::Extended => {
                self.ask_name()
            }
            _ => {
                let message = text(&self.reply_data).unwrap_or_default().to_owned();
                return self.refuse(used, option, reply, message);
            }
        }
        Step::Used(used)
    }

    fn refuse(
        &mut self,
        used: usize,
        option: OptionCode,
        code: ReplyCode,
        message: String,
    ) -> Step {
        self.refusal = Some(OptionRefusal { option, code, message });
        put_option(&mut self.said, OptionCode::ABORT.0, &[]);
        self.phase = Phase::Negotiation(NegotiationStage::Refused);
        Step::Next(used, Rx::Event(ClientEvent::Refused))
    }

    /// Takes in what the server tells about the export; `false` when that is malformed.
    fn learn(&mut self) -> bool {
        let mut reader = Reader(&self.reply_data);
        let Some(kind) = reader.u16().map(InfoType) else { return false };
        match kind {
            InfoType::EXPORT => {
                let (Some(size), Some(flags)) = (reader.u64(), reader.u16()) else { return false };
                (self.export.size_bytes, self.export.flags) = (size, TransmissionFlags(flags));
                reader.is_empty()
            }
            InfoType::BLOCK_SIZE => {
                let (Some(minimum), Some(preferred), Some(payload_max)) =
                    (reader.u32(), reader.u32(), reader.u32())
                else {
                    return false;
                };
                let sizes = BlockSizes { minimum, preferred, payload_max };
                match sizes.is_valid() {
                    true => self.export.sizes = sizes,
                    // As if it had said nothing.
                    false => self.strange_sizes = Some(sizes),
                }
                reader.is_empty()
            }
            _ => true,
        }
    }

    /// Takes in the context that the server selected: the one that was asked for, once.
    fn learn_allocation(&mut self) -> bool {
        let mut reader = Reader(&self.reply_data);
        let number = reader.u32();
        let is_it = self.allocation.is_none() && reader.0 == ALLOCATION.as_bytes();
        self.allocation = number.filter(|_| is_it);
        is_it
    }

    /// GO was accepted.
    fn accepted(&mut self, used: usize) -> Step {
        if !self.export.flags.has(TransmissionFlags::HAS_FLAGS) {
            return self.violate(Violation::NoSize);
        }
        self.phase = Phase::Negotiation(NegotiationStage::Ready);
        Step::Used(used)
    }

    /// TLS is in use now.
    pub fn secured(&mut self) {
        if self.phase == Phase::Negotiation(NegotiationStage::Tls) {
            self.ask_form(self.config.form);
        }
    }
}
