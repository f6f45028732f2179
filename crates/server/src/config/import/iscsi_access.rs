//! Access of iSCSI initiators: by which name and password they log in, and what each may do with
//! each disk.
//!
//! Elsewhere each initiator has rights and a password of its own. In weft a disk is read-only for
//! all initiators that see it or for none, and either all initiators log in with a password or
//! none does. Initiators that would get more than they had are not admitted.

use super::imported::{
    AdmittedHosts, Imported, ImportedNamespace, ImportedSubsystem, ImportedUser,
};
use std::collections::BTreeMap;

/// Access of an initiator to a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// Nothing: it does not see it.
    #[default]
    None,
    /// Read it.
    Read,
    /// Read and write it.
    Write,
}

/// The login of an initiator.
pub enum ImportedLogin {
    /// Without a password.
    Free,
    /// By CHAP, as a user of its own.
    Chap(Chap),
    /// By CHAP, as any of the users that all initiators share.
    Shared,
    /// Not at all, and why.
    Never(String),
}

/// A CHAP user with its password, and what the target proves itself by.
#[derive(Clone, PartialEq)]
pub struct Chap {
    /// User.
    pub user: String,
    /// Password; it is only compared.
    pub password: String,
    /// User and password of the target.
    pub mutual: Option<(String, String)>,
}

/// An initiator that a target knows by its name.
pub struct ImportedInitiator {
    /// Name.
    pub name: String,
    /// The kind of its login.
    pub login: ImportedLogin,
    /// Rights by namespace identifier.
    pub rights: BTreeMap<u64, Right>,
}

/// All initiators that a target does not know by name.
pub struct OtherInitiators {
    /// The kind of their logins.
    pub login: ImportedLogin,
    /// Their access to each disk.
    pub right: Right,
}

/// The access rules of a target; by default nobody logs in.
#[derive(Default)]
pub struct Rules {
    /// Initiators with their names.
    pub initiators: Vec<ImportedInitiator>,
    /// The others; `None`: they may not log in.
    pub others: Option<OtherInitiators>,
    /// Users that initiators share.
    pub users: Vec<Chap>,
    /// The user for discovery; `None`: discovery is open.
    pub discovery: Option<Chap>,
}

/// Initiators without a name, in reports.
const OTHERS: &str = "initiators that the target does not name";

/// Applies the rules of a target to its subsystem. `is_served`: it is the target that is served by
/// iSCSI; the others have no CHAP users in the file.
pub fn admit(
    mut rules: Rules,
    iqn: &str,
    subsystem: &mut ImportedSubsystem,
    is_served: bool,
    imported: &mut Imported,
) {
    if is_served {
        users(&mut rules, iqn, imported);
    } else if rules
        .logins()
        .any(|login| matches!(login, ImportedLogin::Chap(_) | ImportedLogin::Shared))
    {
        imported.leave(format!(
            "{iqn} demands passwords: nobody may log in there (initiators = []) until it is the target of a weft with its users"
        ));
        rules = Rules::default();
    }
    rules.close(iqn, imported);
    subsystem.initiators = match rules.others {
        Some(_) => AdmittedHosts::Any,
        None => AdmittedHosts::Only(rules.initiators.iter().map(|of| of.name.clone()).collect()),
    };
    for namespace in &mut subsystem.namespaces {
        rules.grant(iqn, namespace, imported);
    }
}

/// Takes over the users, and the user of the target. An initiator whose user weft cannot have does
/// not log in.
fn users(rules: &mut Rules, iqn: &str, imported: &mut Imported) {
    let mut known: Vec<Chap> = Vec::new();
    for initiator in &mut rules.initiators {
        let ImportedLogin::Chap(chap) = &initiator.login else { continue };
        match known.iter().find(|of| of.user == chap.user) {
            Some(of) if of.password != chap.password => {
                let why = format!(
                    "another initiator has another password as \"{}\": in weft a user has one password",
                    chap.user
                );
                initiator.login = ImportedLogin::Never(why);
            }
            Some(_) => named(imported, &chap.user, |of| of.initiators.push(initiator.name.clone())),
            None => {
                known.push(chap.clone());
                add_user(chap, vec![initiator.name.clone()], imported);
            }
        }
    }
    rules.users.retain(|chap| match known.iter().find(|of| of.user == chap.user) {
        Some(of) if of.password != chap.password => {
            imported.leave(format!(
                "initiators share the user \"{}\", as which one logs in with another password: in weft a user has one password, that of the one",
                chap.user
            ));
            false
        }
        Some(_) => {
            named(imported, &chap.user, |of| of.initiators.clear());
            true
        }
        None => {
            known.push(chap.clone());
            add_user(chap, Vec::new(), imported);
            true
        }
    });
    if rules.users.is_empty() {
        rules.refuse_shared();
    }
    discovery(rules, iqn, known.is_empty(), imported);
    prove(rules, iqn, imported);
}

fn named(imported: &mut Imported, user: &str, change: impl Fn(&mut ImportedUser)) {
    imported.users.iter_mut().filter(|of| of.name == user).for_each(change);
}

fn add_user(chap: &Chap, initiators: Vec<String>, imported: &mut Imported) {
    let secret_file = imported.files.of(&chap.user, "secret");
    imported.leave(format!(
        "initiators log in as \"{}\": write the password into {secret_file} (chmod 600)",
        chap.user
    ));
    imported.users.push(ImportedUser { name: chap.user.clone(), secret_file, initiators });
}

/// Discovery demands what a login demands, so a password for discovery alone becomes one for both.
fn discovery(rules: &Rules, iqn: &str, is_free: bool, imported: &mut Imported) {
    let Some(chap) = &rules.discovery else { return };
    if is_free {
        add_user(chap, Vec::new(), imported);
        imported.leave(format!(
            "discovery demands the password of \"{}\": in weft so does the login to {iqn}",
            chap.user
        ));
    } else {
        imported.leave(format!(
            "discovery demands the password of \"{}\": in weft it demands what the login demands",
            chap.user
        ));
    }
}

/// The target has one user and password by which it proves itself.
fn prove(rules: &Rules, iqn: &str, imported: &mut Imported) {
    let own = rules.initiators.iter().filter_map(|of| match &of.login {
        ImportedLogin::Chap(chap) => Some((of.name.as_str(), chap)),
        _ => None,
    });
    let shared = rules.users.iter().map(|chap| (OTHERS, chap));
    let mut all = own.chain(shared).filter_map(|(name, chap)| Some((name, chap.mutual.as_ref()?)));
    let Some((_, first)) = all.next() else { return };
    let file = imported.files.of(&first.0, "target.secret");
    imported.leave(format!(
        "{iqn} proves itself to initiators as \"{}\": write the password into {file} (chmod 600)",
        first.0
    ));
    for (name, other) in all.filter(|(_, other)| *other != first) {
        imported.leave(format!(
            "{iqn} proves itself to {name} as \"{}\", or by another password: in weft a target has one user",
            other.0
        ));
    }
    imported.target_user = Some((first.0.clone(), file));
}

impl Rules {
    fn logins(&self) -> impl Iterator<Item = &ImportedLogin> {
        let others = self.others.iter().map(|of| &of.login);
        self.initiators.iter().map(|of| &of.login).chain(others)
    }

    /// No user is shared.
    fn refuse_shared(&mut self) {
        let others = self.others.iter_mut().map(|of| &mut of.login);
        let all = self.initiators.iter_mut().map(|of| &mut of.login).chain(others);
        for login in all.filter(|login| matches!(login, ImportedLogin::Shared)) {
            *login = ImportedLogin::Never("CHAP is demanded, and there is no user for it".into());
        }
    }

    /// Takes their rights from initiators that do not log in, and reports them.
    fn close(&mut self, iqn: &str, imported: &mut Imported) {
        let demands = !imported.users.is_empty();
        for initiator in &mut self.initiators {
            let name = &initiator.name;
            match &initiator.login {
                ImportedLogin::Never(why) => {
                    imported.leave(format!("{name} is not admitted to {iqn}: {why}"));
                    initiator.rights.clear();
                }
                ImportedLogin::Free if demands => imported.leave(format!(
                    "{name} needs no password for {iqn}: in weft all initiators do, so give it one"
                )),
                _ => {}
            }
        }
        match self.others.as_ref().map(|of| &of.login) {
            Some(ImportedLogin::Never(why)) => {
                imported.leave(format!("{OTHERS} are not admitted to {iqn}: {why}"));
                self.others = None;
            }
            Some(ImportedLogin::Free) if demands => imported.leave(format!(
                "{OTHERS} need no password for {iqn}: in weft all initiators do, so give them one"
            )),
            _ => {}
        }
        // With all names admitted, those that cannot log in would still count as having no rights.
        if self.others.is_none() {
            self.initiators.retain(|of| !matches!(of.login, ImportedLogin::Never(_)));
        }
    }

    /// Admits those to a disk who may do the same with it.
    fn grant(&self, iqn: &str, namespace: &mut ImportedNamespace, imported: &mut Imported) {
        let nsid = namespace.nsid;
        let all = if namespace.is_writable { Right::Write } else { Right::Read };
        let of = |initiator: &ImportedInitiator| {
            initiator.rights.get(&nsid).copied().unwrap_or_default().min(all)
        };
        let named = || self.initiators.iter().map(|it| (it.name.as_str(), of(it)));
        let others = self.others.as_ref().map_or(Right::None, |of| of.right.min(all));
        let most = named().map(|(_, right)| right).chain([others]).max().unwrap_or_default();
        let least = named().map(|(_, right)| right).chain([others]).min().unwrap_or_default();
        namespace.is_writable = most == Right::Write;
        if least == most && most > Right::None {
            namespace.initiators = AdmittedHosts::Any;
            return;
        }
        // Those who write keep that; without such, those who read. Others' names are not known.
        let kept = named().map(|(_, right)| right).max().unwrap_or_default().max(Right::Read);
        namespace.is_writable = kept == Right::Write;
        let (admitted, rest): (Vec<_>, Vec<_>) =
            named().filter(|(_, right)| *right > Right::None).partition(|(_, it)| *it == kept);
        namespace.initiators =
            AdmittedHosts::Only(admitted.iter().map(|(name, _)| (*name).to_owned()).collect());
        let rest = rest.iter().map(|(name, right)| (*name, *right));
        let unnamed = [(OTHERS, others)].into_iter().filter(|(_, right)| *right > Right::None);
        for (name, right) in rest.chain(unnamed) {
            let may = if right == Right::Write { "may write" } else { "may only read" };
            imported.leave(format!(
                "{name} {may} LUN {} of {iqn}, and other initiators may not: in weft a disk is the same for all that see it, so they do not see it",
                nsid.saturating_sub(1)
            ));
        }
    }
}
