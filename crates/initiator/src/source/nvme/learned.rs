//! State of a controller, as the admin connection of an association has learned it.

use weft_block::AccessState;
use weft_io::Time;
use weft_proto::nvme::host::{NamespaceProblem, RemoteController, RemoteNamespace};
use weft_proto::nvme::types::Nsid;

/// What the state machine has learned.
#[derive(Default)]
pub(crate) struct Learned {
    pub(crate) controller: RemoteController,
    pub(crate) namespaces: Vec<RemoteNamespace>,
    /// Active namespaces that cannot be used, and why.
    pub(crate) unusable: Vec<(Nsid, NamespaceProblem)>,
    /// How well the controller reaches them.
    pub(crate) access: Vec<(Nsid, AccessState)>,
    /// The namespace that is used.
    pub(crate) used: Option<RemoteNamespace>,
    /// The association is over.
    pub(crate) end: Option<AssociationEnd>,
}

impl Learned {
    /// How well the controller reaches a namespace; `None` where there is none at present.
    pub(crate) fn access_of(&self, nsid: Nsid) -> Option<AccessState> {
        self.access.iter().find(|(of, _)| *of == nsid).map(|(_, state)| *state)
    }

    /// Why what has the identifier of the namespace that is used is another namespace, if so.
    pub(crate) fn replaced(&self) -> Option<String> {
        let used = self.used.as_ref()?;
        let nsid = used.nsid;
        let now = self.namespaces.iter().find(|namespace| namespace.nsid == nsid);
        let problem = self.unusable.iter().find(|(of, problem)| *of == nsid && problem.is_format());
        let difference =
            now.and_then(|now| used.difference(now)).map(|difference| difference.to_string());
        let why = difference.or_else(|| problem.map(|(_, problem)| problem.to_string()))?;
        Some(format!("namespace {nsid} is not the one that was opened: {why}"))
    }
}

/// How an association ended.
#[derive(Clone, Debug)]
pub(crate) struct AssociationEnd {
    pub(crate) why: String,
    /// From then on the controller executes nothing of the association any more.
    pub(crate) settled_at: Time,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::nvme::table::tests::namespace;
    use weft_proto::nvme::status::Status;

    /// What is known of the identifiers of a controller whose namespace 1 is in use.
    fn learned(now: Option<RemoteNamespace>, problem: Option<NamespaceProblem>) -> Learned {
        Learned {
            namespaces: now.into_iter().collect(),
            unusable: problem.map(|problem| (Nsid(1), problem)).into_iter().collect(),
            used: Some(namespace()),
            ..Learned::default()
        }
    }

    #[test]
    fn another_name_or_format_under_the_identifier_is_another_namespace() {
        let other = RemoteNamespace { block_bytes: 4096, ..namespace() };
        assert!(learned(Some(other), None).replaced().is_some_and(|why| why.contains("4096")));
        for format in [
            NamespaceProblem::Metadata(8),
            NamespaceProblem::BlockSize(3),
            NamespaceProblem::Protection(1),
        ] {
            assert!(
                learned(None, Some(format)).replaced().is_some(),
                "{format}: it is formatted otherwise"
            );
        }
    }

    #[test]
    fn a_size_or_an_absence_is_no_other_namespace() {
        let grown = RemoteNamespace { blocks: 2000, ..namespace() };
        assert_eq!(learned(Some(grown), None).replaced(), None);
        assert_eq!(learned(None, None).replaced(), None, "it is away");
        let refused = NamespaceProblem::Refused(Status::INTERNAL_ERROR);
        assert_eq!(learned(None, Some(refused)).replaced(), None, "nothing is known");
        assert_eq!(
            Learned { used: None, ..learned(None, Some(NamespaceProblem::Metadata(8))) }.replaced(),
            None
        );
    }
}
