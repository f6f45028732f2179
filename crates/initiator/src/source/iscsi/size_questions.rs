//! The questions for the size of a disk that come from outside of its queues, and their answers.
//!
//! Each question has a number. The sessions that are in use ask the target; what answers a command
//! that was sent after the question answers the question.

use std::sync::atomic::{AtomicU64, Ordering};
use weft_base::lock::Lock;
use weft_block::owners::Owners;
use weft_io::{DriverId, RemoteLoop};

/// See the module.
#[derive(Default)]
pub(super) struct SizeQuestions {
    /// The number of the last question; 0: there was none.
    last: AtomicU64,
    answers: Lock<Answers>,
    /// Drivers that wait for answers.
    waiting: Owners,
}

#[derive(Default)]
struct Answers {
    /// The last question that was answered with a size, and all before it.
    answered: u64,
    /// The last question that was answered without one, and why.
    refused: Option<(u64, String)>,
}

impl SizeQuestions {
    /// Another question; returns its number.
    pub(super) fn add(&self) -> u64 {
        self.last.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The number of the last question.
    #[inline]
    pub(super) fn last(&self) -> u64 {
        self.last.load(Ordering::Acquire)
    }

    /// The last question that was answered with a size.
    pub(super) fn answered(&self) -> u64 {
        self.answers.lock().answered
    }

    /// What the target says to a command that was sent after the question `number`.
    pub(super) fn answer(&self, number: u64, outcome: Result<(), String>) {
        {
            let answers = &mut *self.answers.lock();
            match outcome {
                Ok(()) => answers.answered = answers.answered.max(number),
                Err(why) => {
                    let is_late = answers.refused.as_ref().is_some_and(|(of, _)| *of > number);
                    if !is_late {
                        answers.refused = Some((number, why));
                    }
                }
            }
        }
        self.wake();
    }

    /// The answer to a question, if there is one.
    pub(super) fn outcome(&self, number: u64) -> Option<Result<(), String>> {
        let answers = self.answers.lock();
        if answers.answered >= number {
            return Some(Ok(()));
        }
        let refused = answers.refused.as_ref().filter(|(of, _)| *of >= number);
        refused.map(|(_, why)| Err(why.clone()))
    }

    /// Enters a driver that waits for an answer.
    pub(super) fn enter(&self, remote: RemoteLoop, driver: DriverId) {
        self.waiting.enter(remote, driver);
    }

    /// Takes it out again.
    pub(super) fn leave(&self, remote: &RemoteLoop, driver: DriverId) {
        self.waiting.leave(remote, driver);
    }

    /// Wakes those who wait.
    pub(super) fn wake(&self) {
        self.waiting.wake_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_before_a_question_does_not_answer_it() {
        let questions = SizeQuestions::default();
        questions.answer(questions.last(), Ok(()));
        let first = questions.add();
        assert_eq!((first, questions.outcome(first)), (1, None));
        let second = questions.add();
        questions.answer(first, Ok(()));
        assert_eq!([first, second].map(|number| questions.outcome(number)), [Some(Ok(())), None]);
        questions.answer(first, Err("late".into()));
        assert_eq!(questions.outcome(second), None);
        questions.answer(second, Err("no".into()));
        assert_eq!(questions.outcome(second), Some(Err("no".into())));
        questions.answer(first, Err("late".into()));
        assert_eq!(questions.outcome(second), Some(Err("no".into())), "the newer one stays");
        questions.answer(second, Ok(()));
        assert_eq!((questions.outcome(second), questions.answered()), (Some(Ok(())), 2));
    }
}
