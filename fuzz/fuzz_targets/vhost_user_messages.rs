//! Messages of a front end of vhost-user, as well formed ones and as noise.

use weft_fuzz::Input;
use weft_proto::limits::{VHOST_USER_DESCRIPTORS_MAX, VHOST_USER_QUEUES_MAX};
use weft_proto::vhost_user::{Header, Request};

pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    while !input.is_empty() {
        let (code, len) = (u32::from(input.byte() % 44), input.below(300));
        let flags = if input.one_in(8) { input.u32() } else { 1 };
        let mut header = [0; Header::BYTES];
        for (at, number) in [code, flags, len as u32].into_iter().enumerate() {
            header[4 * at..4 * at + 4].copy_from_slice(&number.to_le_bytes());
        }
        let Ok(header) = Header::parse(header) else { continue };
        let body = input.bytes(len);
        let Ok(request) = Request::parse(&header, &body) else { continue };
        assert!(*request.descriptors().end() <= VHOST_USER_DESCRIPTORS_MAX);
        match &request {
            Request::SetMemTable(regions) => {
                assert!(
                    regions.iter().all(|region| region.guest.checked_add(region.bytes).is_some())
                );
            }
            Request::SetVringNum(of) | Request::SetVringEnable(of) => {
                assert!(of.index < VHOST_USER_QUEUES_MAX);
            }
            _ => {}
        }
    }
}
