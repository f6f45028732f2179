//! Processes of our own program that a study starts: they end when their standard input closes, so that none is left behind
//! whatever becomes of the study.

use std::io::Read;

/// Returns when standard input has closed.
pub fn wait_for_end_of_input() {
    let mut bytes = [0; 64];
    let mut input = std::io::stdin().lock();
    while !matches!(input.read(&mut bytes), Ok(0) | Err(_)) {}
}
