//! Properties of a device, by name.

use crate::disk::{DiskInner, compare_blocks_max};
use crate::failure::{CallFailure, Code};
use weft_block::{AccessState, Presence};

/// The value of a property.
#[derive(Debug, PartialEq, Eq)]
pub enum PropertyValue {
    /// A number; 1 for yes and 0 for no.
    Number(u64),
    /// A text.
    Text(String),
}

type Read = fn(&DiskInner) -> PropertyValue;

/// All properties.
pub const PROPERTIES: [(&str, Read); 27] = [
    ("access-state", |disk| PropertyValue::Text(access(disk.device().access_state()).into())),
    ("block-size", |disk| PropertyValue::Number(disk.device().geometry().block_bytes.into())),
    ("blocks", |disk| PropertyValue::Number(disk.device().geometry().blocks)),
    ("can-compare", |disk| flag(disk.device().features().compare)),
    ("can-discard", |disk| flag(disk.device().features().discard)),
    ("can-write-zeroes", |disk| flag(disk.device().features().write_zeroes)),
    ("compare-and-write-max", |disk| {
        let geometry = disk.device().geometry();
        PropertyValue::Number(compare_blocks_max(&geometry) * u64::from(geometry.block_bytes))
    }),
    ("discard-zeroes", |disk| flag(disk.device().features().discard_zeroes)),
    ("firmware", |disk| text(disk.device().identity().firmware)),
    ("losses", |disk| PropertyValue::Number(disk.device().losses())),
    ("max-transfer", |disk| {
        PropertyValue::Number(disk.device().geometry().max_transfer_bytes.into())
    }),
    ("model", |disk| text(disk.device().identity().model)),
    ("optimal-size", |disk| {
        let geometry = disk.device().geometry();
        PropertyValue::Number(u64::from(geometry.optimal_blocks) * u64::from(geometry.block_bytes))
    }),
    ("paths", |disk| PropertyValue::Number(disk.device().paths().len() as u64)),
    ("power-fail-atomic-size", |disk| {
        let geometry = disk.device().geometry();
        let blocks = u64::from(geometry.atomic.power_fail_blocks);
        PropertyValue::Number(blocks * u64::from(geometry.block_bytes))
    }),
    ("presence", |disk| PropertyValue::Text(presence(disk.device().presence()).into())),
    ("queues", |disk| PropertyValue::Number(disk.loops() as u64)),
    ("read-only", |disk| flag(!disk.device().features().write)),
    ("reservations", |disk| flag(disk.device().features().reservations)),
    ("serial", |disk| text(disk.device().identity().serial)),
    ("size", |disk| PropertyValue::Number(disk.device().geometry().bytes())),
    ("target", |disk| text(disk.device().identity().target)),
    ("trouble", |disk| text(disk.device().trouble())),
    ("url", |disk| PropertyValue::Text(disk.device().url().to_owned())),
    ("used-blocks", |disk| PropertyValue::Number(disk.device().used_blocks().unwrap_or(u64::MAX))),
    ("uuid", |disk| text(disk.device().identity().uuid.map(|uuid| uuid.to_string()))),
    ("volatile-cache", |disk| flag(disk.device().features().volatile_cache)),
];

fn flag(is_so: bool) -> PropertyValue {
    PropertyValue::Number(is_so.into())
}

/// A text, which is empty if there is none.
fn text(text: Option<String>) -> PropertyValue {
    PropertyValue::Text(text.unwrap_or_default())
}

fn access(state: AccessState) -> &'static str {
    match state {
        AccessState::Optimized => "optimized",
        AccessState::NonOptimized => "non-optimized",
        AccessState::Inaccessible => "inaccessible",
        AccessState::PersistentLoss => "persistent-loss",
        AccessState::Transition => "change",
    }
}

fn presence(presence: Presence) -> &'static str {
    match presence {
        Presence::Here => "here",
        Presence::Away => "away",
        Presence::Gone => "gone",
    }
}

/// The property with a name.
///
/// # Errors
/// There is none.
pub fn property(disk: &DiskInner, name: &str) -> Result<PropertyValue, CallFailure> {
    match PROPERTIES.iter().find(|(known, _)| *known == name) {
        Some((_, read)) => Ok(read(disk)),
        None => {
            let known: Vec<&str> = PROPERTIES.iter().map(|(known, _)| *known).collect();
            let text = format!("there is no property \"{name}\"; there are {}", known.join(", "));
            Err(CallFailure::new(Code::NotFound, text))
        }
    }
}
