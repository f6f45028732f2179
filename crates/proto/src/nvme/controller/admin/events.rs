//! Asynchronous events (Base §5.2): requests that wait for an event, events that wait for a
//! request, and the masks between.

use std::collections::VecDeque;

use crate::limits::ASYNC_EVENTS_MAX;
use crate::nvme::feature::AsyncEvent;
use crate::stream::Tag;

/// The kind of the event Reservation Log Page Available. It has no bit in the feature: a host masks
/// the notifications themselves.
pub(in crate::nvme::controller) const RESERVATION: u32 = 1;

/// One kind of event is a bit of the feature Asynchronous Event Configuration. An event of a kind
/// is reported once and then masked until the host reads the log page that goes with it.
#[derive(Debug, Default)]
pub(in crate::nvme::controller) struct Events {
    /// Kinds that the host wants to hear of.
    enabled: u32,
    /// Kinds that were reported, or wait to be.
    masked: u32,
    requests: VecDeque<Tag>,
    waiting: VecDeque<(u32, AsyncEvent)>,
}

impl Events {
    pub fn enabled(&self) -> u32 {
        self.enabled
    }

    /// Takes a new configuration. Events that wait are kept: they happened under the old one.
    pub fn enable(&mut self, bits: u32) {
        self.enabled = bits;
    }

    /// A request arrives: the event that answers it, if one waits. Otherwise the request waits,
    /// unless there are too many: then it comes back.
    pub fn request(&mut self, tag: Tag) -> Result<Option<AsyncEvent>, Tag> {
        if let Some((_, event)) = self.waiting.pop_front() {
            return Ok(Some(event));
        }
        if self.requests.len() >= ASYNC_EVENTS_MAX {
            return Err(tag);
        }
        self.requests.push_back(tag);
        Ok(None)
    }

    /// Something happened: the request to answer, if one waits.
    pub fn raise(&mut self, kind: u32, event: AsyncEvent) -> Option<Tag> {
        if (self.enabled | RESERVATION) & kind == 0 || self.masked & kind != 0 {
            return None;
        }
        self.masked |= kind;
        let request = self.requests.pop_front();
        if request.is_none() {
            self.waiting.push_back((kind, event));
        }
        request
    }

    /// The host has read the log page of this kind: the next event of the kind is reported again. A
    /// waiting one is obsolete.
    pub fn clear(&mut self, kind: u32) {
        self.masked &= !kind;
        self.waiting.retain(|(waiting, _)| *waiting != kind);
    }

    /// Takes a waiting request out, since it is aborted.
    pub fn withdraw(&mut self, tag: Tag) -> bool {
        let before = self.requests.len();
        self.requests.retain(|request| *request != tag);
        before != self.requests.len()
    }

    /// Forgets everything, as a reset does; the requests that waited come back.
    pub fn reset(&mut self, enabled: u32) -> VecDeque<Tag> {
        let old = std::mem::replace(self, Self { enabled, ..Self::default() });
        old.requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: u32 = 1 << 8;
    const B: u32 = 1 << 31;

    fn event(n: u32) -> AsyncEvent {
        AsyncEvent::decode(n << 8 | 2)
    }

    #[test]
    fn an_event_is_reported_once_until_its_log_is_read() {
        let mut events = Events::default();
        events.enable(A);
        assert_eq!(events.request(Tag(1)), Ok(None));
        assert_eq!(events.raise(B, event(9)), None, "not enabled");
        assert_eq!(events.raise(A, event(1)), Some(Tag(1)));
        assert_eq!(events.raise(A, event(1)), None, "masked");
        assert_eq!(events.request(Tag(2)), Ok(None));
        events.clear(A);
        assert_eq!(events.raise(A, event(1)), Some(Tag(2)));
    }

    #[test]
    fn an_event_waits_for_a_request_and_a_request_for_an_event() {
        let mut events = Events::default();
        events.enable(A | B);
        assert_eq!(events.raise(A, event(1)), None);
        assert_eq!(events.raise(B, event(2)), None);
        assert_eq!(events.request(Tag(1)), Ok(Some(event(1))));
        events.clear(B);
        assert_eq!(events.request(Tag(2)), Ok(None), "the log of B was read already");
        assert!(events.withdraw(Tag(2)) && !events.withdraw(Tag(2)));
    }

    #[test]
    fn requests_are_bounded_and_come_back_on_reset() {
        let mut events = Events::default();
        for n in 0..ASYNC_EVENTS_MAX as u16 {
            assert_eq!(events.request(Tag(n)), Ok(None));
        }
        assert_eq!(events.request(Tag(9)), Err(Tag(9)));
        assert_eq!(events.reset(B).len(), ASYNC_EVENTS_MAX);
        assert_eq!(events.enabled(), B);
        assert_eq!(events.request(Tag(9)), Ok(None));
    }
}
