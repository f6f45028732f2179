//! The receives of a queue pair: posted, to be posted, or still holding a capsule.

use std::collections::VecDeque;

use super::work::ReceiveBuffer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReceiveState {
    /// In the queue of those to be posted.
    ToPost,
    Posted,
    /// A capsule's data is still needed.
    Kept,
    /// The queue pair no longer posts it.
    Idle,
}

/// A slab whose memory is reserved once.
pub(super) struct Receives {
    states: Vec<ReceiveState>,
    to_post: VecDeque<ReceiveBuffer>,
    posted: u16,
}

impl Receives {
    /// `count` receives, none posted yet.
    pub fn new(count: u16) -> Self {
        Self {
            states: vec![ReceiveState::ToPost; count.into()],
            to_post: (0..count).map(ReceiveBuffer).collect(),
            posted: 0,
        }
    }

    /// Number of receives.
    pub fn count(&self) -> u16 {
        self.states.len() as u16
    }

    /// Number that is posted, or will be before anything else.
    pub fn ready(&self) -> u16 {
        self.posted + self.to_post.len() as u16
    }

    /// Returns whether some are posted.
    pub fn any_posted(&self) -> bool {
        self.posted > 0
    }

    /// Returns whether some must be posted.
    pub fn any_to_post(&self) -> bool {
        !self.to_post.is_empty()
    }

    /// Returns the next one to post.
    #[inline]
    pub fn post(&mut self) -> Option<ReceiveBuffer> {
        let buffer = self.to_post.pop_front()?;
        self.states[usize::from(buffer.0)] = ReceiveState::Posted;
        self.posted += 1;
        Some(buffer)
    }

    /// One has completed; `false` if it was not posted. It is kept.
    #[inline]
    pub fn complete(&mut self, buffer: ReceiveBuffer) -> bool {
        match self.states.get_mut(usize::from(buffer.0)) {
            Some(state) if *state == ReceiveState::Posted => {
                *state = ReceiveState::Kept;
                self.posted -= 1;
                true
            }
            _ => false,
        }
    }

    /// One that was kept must be posted again.
    #[inline]
    pub fn repost(&mut self, buffer: ReceiveBuffer) {
        if let Some(state) = self.states.get_mut(usize::from(buffer.0))
            && *state == ReceiveState::Kept
        {
            *state = ReceiveState::ToPost;
            self.to_post.push_back(buffer);
        }
    }

    /// No more are posted.
    pub fn stop(&mut self) {
        for buffer in self.to_post.drain(..) {
            self.states[usize::from(buffer.0)] = ReceiveState::Idle;
        }
    }

    /// None is posted: the queue pair is gone.
    pub fn lose(&mut self) {
        self.stop();
        self.states.fill(ReceiveState::Idle);
        self.posted = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_posted_once() {
        let mut receives = Receives::new(2);
        assert_eq!(
            (receives.post(), receives.post(), receives.post()),
            (Some(ReceiveBuffer(0)), Some(ReceiveBuffer(1)), None)
        );
        assert!(
            receives.complete(ReceiveBuffer(1))
                && !receives.complete(ReceiveBuffer(1))
                && !receives.complete(ReceiveBuffer(2))
        );
        assert_eq!(receives.ready(), 1);
        receives.repost(ReceiveBuffer(0));
        receives.repost(ReceiveBuffer(1));
        receives.repost(ReceiveBuffer(1));
        assert_eq!(
            (receives.ready(), receives.post(), receives.post()),
            (2, Some(ReceiveBuffer(1)), None)
        );
        receives.complete(ReceiveBuffer(0));
        receives.lose();
        receives.repost(ReceiveBuffer(0));
        assert_eq!(
            (receives.post(), receives.any_posted(), receives.any_to_post()),
            (None, false, false)
        );
    }
}
