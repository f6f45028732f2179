//! The initiator's end of a session against a target that a script plays, on virtual time.

mod commands;
mod cuts;
mod login;
mod recovery;
mod violations;
mod world;
