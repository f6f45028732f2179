//! The target's end of an iSCSI connection in the hands of an initiator that does just what a test
//! wants, right or wrong.

mod world;

mod commands;
mod control;
mod cuts;
mod login;
mod time;
mod violations;
