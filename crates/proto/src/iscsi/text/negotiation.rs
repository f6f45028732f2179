//! Answers to offers, and their evaluation (RFC 7143 §6.2, §13).

use super::{Key, KeyKind, OfferedParameters, Parameters, boolean, number, yes_or_no};

/// Answer of a responder to an offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyAnswer {
    /// Nothing: the key declares something.
    Silence,
    /// One of the constants, or a choice from a list.
    Word(&'static str),
    /// A number.
    Number(u32),
}

impl KeyAnswer {
    /// As text; `None` when there is nothing to say.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Silence => None,
            Self::Word(word) => Some((*word).to_owned()),
            Self::Number(number) => Some(number.to_string()),
        }
    }
}

/// Why a negotiation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NegotiationError {
    /// The value is not of the key's form, or out of its range.
    #[error("the value of {0:?} is invalid")]
    Value(Key),
    /// The peer refused what this end needs.
    #[error("the peer refused {0:?}")]
    Refused(Key),
    /// The offer does not allow the answer.
    #[error("the answer to {0:?} was not one of the offered values")]
    Answer(Key),
}

/// The responder's part: enters what follows from `ours` and the peer's `theirs` into `into`, and
/// gives the answer. A value that is invalid, or nothing of which is acceptable, is answered with
/// Reject: the key keeps its value, and whether that ends the login is the caller's to say
/// ([`is_essential`]).
///
/// This function ignores keys of security and those that declare names.
pub fn negotiate(
    key: Key,
    theirs: &str,
    ours: &OfferedParameters,
    into: &mut Parameters,
) -> KeyAnswer {
    match key.kind() {
        KeyKind::Declared | KeyKind::Security => KeyAnswer::Silence,
        KeyKind::DeclaredNumber { min, max } => match in_range(theirs, min, max) {
            Some(value) => {
                into.set_number(key, value);
                KeyAnswer::Silence
            }
            None => KeyAnswer::Word(super::REJECT),
        },
        KeyKind::Minimum { min, max } => {
            choose(key, in_range(theirs, min, max), u32::min, ours, into)
        }
        KeyKind::Maximum { min, max } => {
            choose(key, in_range(theirs, min, max), u32::max, ours, into)
        }
        KeyKind::And => {
            decide(key, boolean(theirs).map(|theirs| theirs && ours.boolean(key)), into)
        }
        KeyKind::Or => decide(key, boolean(theirs).map(|theirs| theirs || ours.boolean(key)), into),
        KeyKind::List => {
            // The offerer's preference counts (§6.2.1).
            let choice = theirs
                .split(',')
                .find_map(|offered| ours.list(key).iter().find(|ours| **ours == offered));
            match choice {
                Some(choice) => {
                    into.set_choice(key, choice);
                    KeyAnswer::Word(choice)
                }
                None => KeyAnswer::Word(super::REJECT),
            }
        }
        KeyKind::Marker => match key {
            Key::InitiatorMarker | Key::TargetMarker => KeyAnswer::Word("No"),
            _ => KeyAnswer::Word(super::REJECT),
        },
    }
}

/// Returns whether a login cannot go on when the offer of this key was rejected: both ends would go
/// on with different ideas of it.
pub const fn is_essential(key: Key) -> bool {
    !matches!(key.kind(), KeyKind::Marker | KeyKind::Declared | KeyKind::Security)
        && !matches!(key, Key::TaskReporting)
}

/// The offerer's part: enters the peer's answer to what `ours` offered into `into`.
pub fn settle(
    key: Key,
    answer: &str,
    ours: &OfferedParameters,
    into: &mut Parameters,
) -> Result<(), NegotiationError> {
    match answer {
        super::REJECT if is_essential(key) => return Err(NegotiationError::Refused(key)),
        // The key keeps its default value.
        super::REJECT | super::IRRELEVANT | super::NOT_UNDERSTOOD => return Ok(()),
        _ => {}
    }
    match key.kind() {
        KeyKind::Declared | KeyKind::Security | KeyKind::Marker => {}
        KeyKind::DeclaredNumber { min, max } => {
            into.set_number(key, in_range(answer, min, max).ok_or(NegotiationError::Value(key))?);
        }
        KeyKind::Minimum { min, max } => {
            let value = in_range(answer, min, max).ok_or(NegotiationError::Value(key))?;
            into.set_number(key, value.min(ours.number(key)));
        }
        KeyKind::Maximum { min, max } => {
            let value = in_range(answer, min, max).ok_or(NegotiationError::Value(key))?;
            into.set_number(key, value.max(ours.number(key)));
        }
        KeyKind::And => {
            let value = boolean(answer).ok_or(NegotiationError::Value(key))?;
            into.set_boolean(key, value && ours.boolean(key));
        }
        KeyKind::Or => {
            let value = boolean(answer).ok_or(NegotiationError::Value(key))?;
            into.set_boolean(key, value || ours.boolean(key));
        }
        KeyKind::List => {
            let choice = ours
                .list(key)
                .iter()
                .find(|ours| **ours == answer)
                .ok_or(NegotiationError::Answer(key))?;
            into.set_choice(key, choice);
        }
    }
    Ok(())
}

fn in_range(text: &str, min: u32, max: u32) -> Option<u32> {
    let value = u32::try_from(number(text)?).ok()?;
    (min..=max).contains(&value).then_some(value)
}

fn choose(
    key: Key,
    theirs: Option<u32>,
    function: fn(u32, u32) -> u32,
    ours: &OfferedParameters,
    into: &mut Parameters,
) -> KeyAnswer {
    let Some(theirs) = theirs else { return KeyAnswer::Word(super::REJECT) };
    let value = function(theirs, ours.number(key));
    into.set_number(key, value);
    KeyAnswer::Number(value)
}

fn decide(key: Key, value: Option<bool>, into: &mut Parameters) -> KeyAnswer {
    let Some(value) = value else { return KeyAnswer::Word(super::REJECT) };
    into.set_boolean(key, value);
    KeyAnswer::Word(yes_or_no(value))
}
