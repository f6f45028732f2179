//! Admission of a device that a path has opened: it must be the one to which the other paths, and
//! this one before, have led.

use weft_block::{BlockDevice, Features, Geometry, Identity, split};
use weft_block::{Device, sharing};
use weft_io::RemoteLoop;

/// What was found when the device was first opened. All but its size has to stay so.
pub(super) struct Base {
    pub(super) geometry: Geometry,
    pub(super) features: Features,
    pub(super) identity: Identity,
    /// Queues that it granted.
    pub(super) queues: usize,
}

impl Base {
    pub(super) fn of(device: &dyn BlockDevice) -> Self {
        Self {
            geometry: device.geometry(),
            features: device.features(),
            identity: device.identity(),
            queues: device.max_queues(),
        }
    }

    /// Whether nothing tells it from another one of its size.
    pub(super) fn is_nameless(&self) -> bool {
        self.identity == Identity::default()
    }

    /// Why the device is another one or offers less, if so; a size may differ.
    pub(super) fn difference(&self, device: &dyn BlockDevice) -> Option<String> {
        let (identity, geometry) = (device.identity(), device.geometry());
        let text =
            |name: &Option<uuid::Uuid>| name.map_or_else(|| "none".into(), |uuid| uuid.to_string());
        if identity.uuid != self.identity.uuid {
            return Some(format!(
                "its UUID is {} instead of {}",
                text(&identity.uuid),
                text(&self.identity.uuid)
            ));
        }
        if self.identity.uuid.is_none()
            && (&identity.serial, &identity.model) != (&self.identity.serial, &self.identity.model)
        {
            let [now, before] =
                [&identity, &self.identity].map(|id| format!("{:?} {:?}", id.model, id.serial));
            return Some(format!("it is {now} instead of {before}"));
        }
        if geometry.block_bytes != self.geometry.block_bytes {
            return Some(format!(
                "its blocks have {} bytes instead of {}",
                geometry.block_bytes, self.geometry.block_bytes
            ));
        }
        if geometry.padding_bytes != self.geometry.padding_bytes {
            let [now, before] = [geometry, self.geometry].map(|of| of.data_bytes());
            return Some(format!(
                "it has {now} bytes instead of {before}, and ends within a block"
            ));
        }
        lacks(&self.features, &device.features()).map(|what| format!("it no longer offers {what}"))
    }

    /// The device as queues use it: with as long operations and for as many loops as before.
    /// `loops` use the device at present.
    pub(super) fn fit(&self, device: Device, loops: &[RemoteLoop]) -> Device {
        let wide = if device.max_queues() < self.queues.min(loops.len()) {
            sharing::share(device, loops)
        } else {
            device
        };
        split::up_to(wide, self.geometry.max_transfer_bytes)
    }
}

/// Whether two devices may be those of different targets: their targets have other names or serial
/// numbers, or no names. Two copies of one system may have one name; and the kernel's target draws
/// another serial number whenever it is configured.
pub(super) fn are_apart(one: &Identity, other: &Identity) -> bool {
    let of_target =
        |identity: &Identity| identity.serial_of_target.then(|| identity.serial.clone()).flatten();
    one.target.is_none() || one.target != other.target || of_target(one) != of_target(other)
}

/// Why a device is not the data of `known`, if its further names say so. Two targets may have given
/// a UUID to different data: both were copied from one system, say.
pub(super) fn contradiction(known: &Identity, now: &Identity) -> Option<String> {
    let of = |identity: &Identity, kind: &str| {
        let mut names: Vec<String> =
            identity.names.iter().filter(|it| it.0 == kind).map(|it| it.1.clone()).collect();
        names.sort_unstable();
        names.join(", ")
    };
    for (kind, _) in &known.names {
        let (before, after) = (of(known, kind), of(now, kind));
        if !after.is_empty() && before != after {
            return Some(format!("its {kind} is {after} instead of {before}"));
        }
    }
    let is_of_data = !known.serial_of_target && !now.serial_of_target;
    match (&known.serial, &now.serial) {
        (Some(before), Some(after)) if before != after && is_of_data => {
            Some(format!("its serial number is {after} instead of {before}"))
        }
        _ => None,
    }
}

/// What `now` does not offer of what was promised to users.
fn lacks(before: &Features, now: &Features) -> Option<&'static str> {
    let all = [
        (before.write, now.write, "writes"),
        // Users that were told of no cache never flush. Who cannot ask, because another host has
        // reserved the device, cannot write either.
        (
            !before.volatile_cache,
            !now.volatile_cache || now.cache_unknown,
            "durable writes (it has a volatile cache)",
        ),
        (before.discard_zeroes, now.discard_zeroes, "discards that read as zeroes"),
        (before.write_zeroes, now.write_zeroes, "Write Zeroes"),
        (before.compare, now.compare, "compare-and-write"),
    ];
    all.iter().find(|(before, now, _)| *before && !now).map(|(.., what)| *what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(kind: &'static str, digits: &str) -> Identity {
        Identity { names: vec![(kind, digits.into())], ..Identity::default() }
    }

    fn served(target: Option<&str>, serial: &str, serial_of_target: bool) -> Identity {
        let (target, serial) = (target.map(str::to_owned), Some(serial.to_owned()));
        Identity { target, serial, serial_of_target, ..Identity::default() }
    }

    #[test]
    fn names_of_one_kind_have_to_be_equal() {
        let naa = named("NAA", "5000");
        assert_eq!(contradiction(&naa, &naa), None);
        assert_eq!(contradiction(&naa, &named("EUI-64", "01")), None);
        assert_eq!(contradiction(&naa, &Identity::default()), None);
        let said = contradiction(&naa, &named("NAA", "5001")).unwrap();
        assert_eq!(said, "its NAA is 5001 instead of 5000");
        let mut several = named("NAA", "5001");
        several.names.push(("NAA", "5000".into()));
        let mut turned = several.clone();
        turned.names.reverse();
        assert_eq!(contradiction(&several, &turned), None);
        assert!(contradiction(&naa, &several).is_some());
    }

    #[test]
    fn a_serial_number_of_the_target_says_nothing_of_the_data() {
        let differ = |target: [Option<&str>; 2], of_target: [bool; 2]| {
            let one = served(target[0], "1", of_target[0]);
            contradiction(&one, &served(target[1], "2", of_target[1])).is_some()
        };
        let (a, b) = (Some("a/1"), Some("b/1"));
        assert!(differ([a, a], [false; 2]) && differ([a, b], [false; 2]));
        assert!(!differ([a, a], [true; 2]) && !differ([a, b], [true; 2]));
        assert!(!differ([a, b], [false, true]) && !differ([None, None], [true, false]));
    }

    #[test]
    fn targets_without_a_name_may_be_different_ones() {
        let apart = |one, other| are_apart(&served(one, "", false), &served(other, "", false));
        assert!(apart(None, None) && apart(Some("a"), None) && apart(Some("a"), Some("b")));
        assert!(!apart(Some("a"), Some("a")));
        let numbered = |serial| served(Some("a"), serial, true);
        assert!(are_apart(&numbered("1"), &numbered("2")));
        assert!(!are_apart(&numbered("1"), &numbered("1")));
    }
}
