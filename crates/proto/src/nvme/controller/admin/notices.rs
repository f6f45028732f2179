//! Notices to a host about reservations (Base 2.1 §8.1.22.8): the log page Reservation
//! Notification, and its mask.

use std::collections::VecDeque;

use crate::limits::RESERVATION_NOTICES_MAX;
use crate::nvme::reservation::ReservationNotification;
use crate::nvme::types::Nsid;
use crate::reservation::Notice;

/// The notifications of one controller that its host has not read, oldest first.
#[derive(Debug, Default)]
pub(in crate::nvme::controller) struct Notices {
    count: u64,
    unread: VecDeque<(u64, Nsid, Notice)>,
}

/// The code of a notification, which is also its bit in the feature Reservation Notification Mask.
const fn code(notice: Notice) -> u8 {
    match notice {
        Notice::RegistrationPreempted => 1,
        Notice::ReservationReleased => 2,
        Notice::ReservationPreempted => 3,
    }
}

/// The notifications that the feature can mask.
pub(super) const MASK_BITS: u32 = 0b1110;

impl Notices {
    /// Adds one, unless the mask has it. If there are too many, the oldest is lost, which the
    /// counts show to the host.
    pub fn add(&mut self, nsid: Nsid, notice: Notice, mask: u32) -> bool {
        if mask >> code(notice) & 1 != 0 {
            return false;
        }
        // Zero means that there is none.
        self.count = self.count.wrapping_add(1).max(1);
        if self.unread.len() >= RESERVATION_NOTICES_MAX {
            self.unread.pop_front();
        }
        self.unread.push_back((self.count, nsid, notice));
        true
    }

    /// The log page: the oldest notification.
    pub fn page(&self) -> Vec<u8> {
        let available = self.unread.len().saturating_sub(1).min(u8::MAX.into()) as u8;
        let oldest = self.unread.front();
        oldest
            .map_or_else(ReservationNotification::default, |&(count, nsid, notice)| {
                ReservationNotification { count, kind: code(notice), available, nsid }
            })
            .encode()
    }

    /// The host has read it.
    pub fn was_read(&mut self) {
        self.unread.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_read_one_after_the_other() {
        let mut notices = Notices::default();
        assert_eq!(notices.page(), [0; 64]);
        assert!(notices.add(Nsid(1), Notice::ReservationReleased, 0));
        assert!(notices.add(Nsid(2), Notice::RegistrationPreempted, 0b1100));
        assert!(!notices.add(Nsid(2), Notice::ReservationPreempted, 0b1100));
        assert_eq!(notices.page()[..16], [1, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 1, 0, 0, 0]);
        notices.was_read();
        assert_eq!(notices.page()[..16], [2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]);
        notices.was_read();
        assert_eq!(notices.page(), [0; 64]);
    }

    #[test]
    fn of_too_many_the_oldest_are_lost() {
        let mut notices = Notices::default();
        for _ in 0..RESERVATION_NOTICES_MAX + 3 {
            notices.add(Nsid(1), Notice::ReservationReleased, 0);
        }
        assert_eq!((notices.page()[0], notices.unread.len()), (4, RESERVATION_NOTICES_MAX));
    }
}
