//! TLS keys that authentications generate (secure channel concatenation, TCP transport 1.1 §3.6.1).
//! They are here and nowhere else.
//!
//! A host authenticates on a connection without TLS, from which both ends derive a new key. The
//! host connects again with this key: it belongs to the association whose admin queue comes with
//! it, and is dropped with that association. Only queues of this association may use it. A key for
//! which no association came is forgotten after a time.

use super::subsystems::ControllerId;
use std::time::Duration;
use weft_base::lock::Lock;
use weft_connection::limits::{GENERATED_PSK_S, GENERATED_PSKS_MAX, GENERATED_PSKS_OF_HOST};
use weft_connection::psk::psk;
use weft_proto::nvme::auth::{Derivation, GeneratedPsk, IdentityVersion, Named, PskIdentity};
use weft_proto::nvme::controller::ConnectError;

/// The keys of one target.
#[derive(Default)]
pub(crate) struct GeneratedKeys(Lock<Vec<Generated>>);

/// A key.
struct Generated {
    identity: PskIdentity,
    /// When it was made.
    made: Duration,
    of: Owner,
}

/// The association that a key belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// It was made on this one, and waits for another to come with it.
    MadeBy(ControllerId),
    /// The same; that one has ended.
    Nobody,
    /// All of whose queues have it.
    UsedBy(ControllerId),
}

impl Generated {
    fn waits(&self) -> bool {
        !matches!(self.of, Owner::UsedBy(_))
    }

    fn is_named(&self, identity: &[u8]) -> bool {
        // The digest in it is no secret: it is in the first message of TLS.
        self.identity.text.as_bytes() == identity
    }
}

/// The names in an identity.
fn names(identity: &str) -> Option<(&str, &str)> {
    Named::parse(identity.as_bytes()).map(|named| (named.hostnqn, named.subnqn))
}

impl weft_tls::Keys for GeneratedKeys {
    fn find(&self, identity: &[u8]) -> Option<weft_tls::Psk> {
        let keys = self.0.lock();
        let found = keys.iter().find(|key| key.is_named(identity))?;
        psk(found.identity.psk.as_bytes(), found.identity.hash)
    }
}

impl GeneratedKeys {
    /// Forgets those for which no association came in time.
    pub(crate) fn forget(&self, now: Duration) {
        forget(&mut self.0.lock(), now);
    }

    /// A host has authenticated on the admin queue of a controller, and this key came of it;
    /// `names`: its own and that of the subsystem, as it calls them. Another one of the same
    /// association is not valid any more. Tells whether there is an identity for the key.
    pub(super) fn insert(
        &self,
        now: Duration,
        made: &GeneratedPsk,
        names: (&str, &str),
        of: Owner,
    ) -> bool {
        let new = PskIdentity::new(
            &made.key,
            made.hash,
            true,
            IdentityVersion::V1,
            names,
            Derivation::Standard,
        );
        let Some(identity) = new else { return false };
        let mut keys = self.0.lock();
        forget(&mut keys, now);
        keys.retain(|key| key.of != of);
        make_room(&mut keys, names);
        keys.push(Generated { identity, made: now, of });
        true
    }

    /// An admin queue came with a key, which is that of its association from now on.
    ///
    /// # Errors
    /// [`ConnectError::OtherIdentity`]: the key is that of another association, or not valid any
    /// more.
    pub(super) fn claim(
        &self,
        now: Duration,
        identity: &[u8],
        controller: ControllerId,
    ) -> Result<(), ConnectError> {
        let mut keys = self.0.lock();
        forget(&mut keys, now);
        let free = keys.iter_mut().find(|key| key.is_named(identity) && key.waits());
        free.ok_or(ConnectError::OtherIdentity)?.of = Owner::UsedBy(controller);
        Ok(())
    }

    /// Whether an I/O queue of a controller may come with a key, or without one.
    ///
    /// # Errors
    /// [`ConnectError::OtherIdentity`].
    pub(super) fn check(
        &self,
        identity: Option<&[u8]>,
        controller: ControllerId,
    ) -> Result<(), ConnectError> {
        let keys = self.0.lock();
        let own = keys.iter().find(|key| key.of == Owner::UsedBy(controller));
        let fits = match (identity, own) {
            (Some(identity), Some(own)) => own.is_named(identity),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if fits { Ok(()) } else { Err(ConnectError::OtherIdentity) }
    }

    /// The association of a controller has ended.
    pub(super) fn release(&self, controller: ControllerId) {
        let mut keys = self.0.lock();
        keys.retain(|key| key.of != Owner::UsedBy(controller));
        let made = keys.iter_mut().filter(|key| key.of == Owner::MadeBy(controller));
        made.for_each(|key| key.of = Owner::Nobody);
    }
}

fn forget(keys: &mut Vec<Generated>, now: Duration) {
    keys.retain(|key| {
        !key.waits() || now.saturating_sub(key.made) < Duration::from_secs(GENERATED_PSK_S)
    });
}

/// Lets the oldest keys go that wait: of the same host and subsystem, or of all.
fn make_room(keys: &mut Vec<Generated>, of: (&str, &str)) {
    let is_own = |key: &Generated| key.waits() && names(&key.identity.text) == Some(of);
    if keys.iter().filter(|key| is_own(key)).count() >= GENERATED_PSKS_OF_HOST
        && let Some(oldest) = keys.iter().position(is_own)
    {
        keys.remove(oldest);
    }
    if keys.iter().filter(|key| key.waits()).count() >= GENERATED_PSKS_MAX
        && let Some(oldest) = keys.iter().position(Generated::waits)
    {
        keys.remove(oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::nvme::subsystems::Which;
    use weft_proto::nvme::auth::{Hash, InterchangeKey};
    use weft_proto::nvme::types::Cntlid;
    use weft_tls::Keys;

    const T0: Duration = Duration::from_secs(100);
    const NAMES: (&str, &str) = ("nqn.2026-01.example.host:one", "nqn.2026-01.example.weft:one");

    fn controller(n: u16) -> ControllerId {
        (Which::Discovery, Cntlid(n))
    }

    fn made(n: u16) -> GeneratedPsk {
        let mut bytes = [0; 32];
        bytes[..2].copy_from_slice(&n.to_le_bytes());
        let key = InterchangeKey::of_key(&bytes, None).unwrap();
        // Without a hash function it is the key itself.
        GeneratedPsk {
            hash: Hash::Sha256,
            key: key.retained(NAMES.0, Derivation::Standard).unwrap(),
        }
    }

    fn identity(n: u16, names: (&str, &str)) -> Vec<u8> {
        let identity = PskIdentity::new(
            &made(n).key,
            Hash::Sha256,
            true,
            IdentityVersion::V1,
            names,
            Derivation::Standard,
        );
        identity.unwrap().text.into_bytes()
    }

    fn insert(keys: &GeneratedKeys, at: Duration, n: u16, of: Owner) -> Vec<u8> {
        assert!(keys.insert(at, &made(n), NAMES, of));
        identity(n, NAMES)
    }

    #[test]
    fn a_key_goes_with_the_association_that_came_with_it() {
        let keys = GeneratedKeys::default();
        let one = insert(&keys, T0, 1, Owner::MadeBy(controller(1)));
        assert!(keys.find(&one).is_some() && keys.find(b"NVMe1G01 h s d").is_none());
        assert!(
            keys.check(Some(&one), controller(1)).is_err(),
            "it is not that of the association that made it"
        );
        keys.release(controller(1));
        keys.claim(T0, &one, controller(2)).unwrap();
        // The number of the one that made it names another association by now.
        keys.release(controller(1));
        assert_eq!(
            keys.claim(T0, &one, controller(3)),
            Err(ConnectError::OtherIdentity),
            "it is in use"
        );
        assert!(
            keys.check(Some(&one), controller(2)).is_ok()
                && keys.check(Some(&one), controller(3)).is_err()
        );
        assert!(
            keys.check(None, controller(2)).is_err() && keys.check(None, controller(3)).is_ok()
        );
        keys.release(controller(2));
        assert!(keys.find(&one).is_none() && keys.claim(T0, &one, controller(4)).is_err());
    }

    #[test]
    fn a_key_waits_for_a_limited_time() {
        let keys = GeneratedKeys::default();
        let [one, two] = [1, 2].map(|n| insert(&keys, T0, n, Owner::MadeBy(controller(n))));
        let end = T0 + Duration::from_secs(GENERATED_PSK_S);
        keys.claim(end - Duration::from_nanos(1), &one, controller(3)).unwrap();
        assert_eq!(keys.claim(end, &two, controller(4)), Err(ConnectError::OtherIdentity));
        assert!(keys.find(&two).is_none());
        keys.forget(end + end);
        assert!(keys.check(Some(&one), controller(3)).is_ok(), "in use it stays");
    }

    #[test]
    fn an_association_has_one_key() {
        let keys = GeneratedKeys::default();
        let first = insert(&keys, T0, 1, Owner::MadeBy(controller(1)));
        let second = insert(&keys, T0, 2, Owner::MadeBy(controller(1)));
        assert!(keys.find(&first).is_none() && keys.find(&second).is_some());
        keys.claim(T0, &second, controller(2)).unwrap();
        let third = insert(&keys, T0, 3, Owner::UsedBy(controller(2)));
        assert!(keys.find(&second).is_none() && keys.check(Some(&second), controller(2)).is_err());
        assert!(keys.check(Some(&third), controller(2)).is_ok());
        assert!(keys.claim(T0, &third, controller(3)).is_err());
    }

    #[test]
    fn keys_are_counted() {
        let keys = GeneratedKeys::default();
        let first = insert(&keys, T0, 0, Owner::Nobody);
        keys.claim(T0, &first, controller(0)).unwrap();
        for n in 1..=GENERATED_PSKS_OF_HOST as u16 + 1 {
            insert(&keys, T0, n, Owner::MadeBy(controller(n)));
        }
        let is_there = |n| keys.find(&identity(n, NAMES)).is_some();
        assert!(!is_there(1) && is_there(2) && is_there(0));
        for n in 0..GENERATED_PSKS_MAX as u16 {
            let host = format!("nqn.2026-01.example.host:{n}");
            assert!(keys.insert(
                T0,
                &made(n),
                (&host, NAMES.1),
                Owner::MadeBy(controller(n + 1000))
            ));
        }
        assert_eq!(keys.0.lock().len(), GENERATED_PSKS_MAX + 1);
        assert!(is_there(0), "what is in use stays");
        assert!(!keys.insert(T0, &made(1), ("two words", NAMES.1), Owner::Nobody));
    }
}
