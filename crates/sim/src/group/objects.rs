//! The objects with reservations in the cluster, and the gateways that watch for changes of them.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;
use weft_io::Time;

/// A client of the cluster: a process of a gateway.
pub type Client = u64;

/// How long the cluster waits for those who are told.
const ANSWER: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Default)]
pub struct ReservationObjects {
    objects: BTreeMap<Uuid, (u64, Vec<u8>)>,
    watchers: BTreeSet<Client>,
    told: u64,
    notifications: BTreeMap<u64, Notification>,
    /// What is on its way to a watcher.
    notices: Vec<(Client, u64, Uuid)>,
}

/// The cluster waits for acknowledgements.
struct Notification {
    until: Time,
    missing: BTreeSet<Client>,
    answered: Vec<Client>,
}

impl ReservationObjects {
    pub fn object(&self, of: Uuid) -> Option<(u64, Vec<u8>)> {
        self.objects.get(&of).cloned()
    }

    /// Compare-and-set.
    pub fn replace(&mut self, of: Uuid, before: u64, object: Vec<u8>) -> Option<u64> {
        let now = self.objects.get(&of).map_or(0, |(generation, _)| *generation);
        if now != before {
            return None;
        }
        self.objects.insert(of, (now + 1, object));
        Some(now + 1)
    }

    /// Notifies a client from now on.
    pub fn watch(&mut self, client: Client) {
        self.watchers.insert(client);
    }

    /// Stops notifying a client.
    pub fn forget(&mut self, client: Client) {
        self.watchers.remove(&client);
        self.notices.retain(|(to, ..)| *to != client);
        self.notifications.values_mut().for_each(|it| _ = it.missing.remove(&client));
    }

    /// Tells all watchers but one; a number for what they answer.
    pub fn tell(&mut self, by: Client, of: Uuid, now: Time) -> u64 {
        self.told += 1;
        let missing: BTreeSet<_> =
            self.watchers.iter().copied().filter(|client| *client != by).collect();
        self.notices.extend(missing.iter().map(|client| (*client, self.told, of)));
        self.notifications
            .insert(self.told, Notification { until: now + ANSWER, missing, answered: Vec::new() });
        self.told
    }

    /// Returns the notices for a client.
    pub fn notices(&mut self, to: Client) -> Vec<(u64, Uuid)> {
        self.notices
            .extract_if(.., |(client, ..)| *client == to)
            .map(|(_, number, of)| (number, of))
            .collect()
    }

    pub fn acknowledge(&mut self, number: u64, client: Client) {
        if let Some(notification) = self.notifications.get_mut(&number)
            && notification.missing.remove(&client)
        {
            notification.answered.push(client);
        }
    }

    /// Returns the clients that have acknowledged, when all have or enough time has passed.
    pub fn answers(&mut self, number: u64, now: Time) -> Option<Vec<Client>> {
        let notification = self.notifications.get(&number)?;
        let is_over = notification.missing.is_empty() || notification.until <= now;
        is_over.then(|| {
            self.notifications
                .remove(&number)
                .map_or_else(Vec::new, |notification| notification.answered)
        })
    }
}
