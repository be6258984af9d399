//! Changes of the configuration by commands: what people wrote stays as it is, comments too.
//!
//! A change is checked as a whole before it is written, replaces the file in one step, and is durable before the command says so.
//! A lock on a file beside it keeps two commands from losing each other's changes.

use super::{Array, Block, Config, Uuid};
use crate::fronts::ublk::UblkCopy;
use crate::settings::WriteMode;
use crate::system::atomic_file::replace;
use crate::words::error::{ErrorSentence, Told};
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use stria_drive::lock_holder;
use stria_terminal::Failure;
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, Value, value};

/// A new configuration: everything in comments.
pub const TEMPLATE: &str = include_str!("../../../../packaging/stria.toml");

/// The file with the lock, in the folder of the configuration. Only its owner can open it: anybody may lock what is open to read,
/// as the folder is.
const LOCK_FILE: &str = ".stria.lock";
/// The wait for another command's change, and the pause between two tries.
const PATIENCE: Duration = Duration::from_secs(10);
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// The right to replace the configuration, valid or not, as no command changes it meanwhile.
pub struct Replacement {
    path: PathBuf,
    _lock: File,
}

impl Replacement {
    /// Locks the file.
    ///
    /// # Errors
    /// When its folder cannot be made or written, or another process does not end its change.
    pub fn open(path: &Path) -> Result<Self, Told> {
        Self::open_within(path, PATIENCE)
    }

    pub(super) fn open_within(path: &Path, patience: Duration) -> Result<Self, Told> {
        // The file may be a link into a repository: its target is changed.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("/"));
        std::fs::create_dir_all(folder).map_err(|error| cannot_change(&path, &error))?;
        let lock_path = folder.join(LOCK_FILE);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock = rustix::fs::open(&lock_path, flags, Mode::RUSR | Mode::WUSR);
        let in_words = |error: &dyn std::fmt::Display| format!("{}: {error}", lock_path.display());
        let lock = File::from(lock.map_err(|error| cannot_change(&path, &in_words(&error)))?);
        let end = Instant::now() + patience;
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if Instant::now() < end => std::thread::sleep(AGAIN_AFTER),
                Err(TryLockError::WouldBlock) => {
                    let text = format!("{} is changing it; try again when that has ended", lock_holder(&lock));
                    return Err(cannot_change(&path, &text));
                }
                Err(TryLockError::Error(error)) => return Err(cannot_change(&path, &in_words(&error))),
            }
        }
        Ok(Self { path, _lock: lock })
    }

    /// Writes a text, which the caller has checked, in place of the whole file.
    ///
    /// # Errors
    /// When it cannot be written; then nothing has changed.
    pub fn write(self, text: &str) -> Result<(), Told> {
        Ok(replace(&self.path, text)?)
    }
}

fn cannot_change(path: &Path, error: &dyn std::fmt::Display) -> Told {
    ErrorSentence::ConfigUnchangeable { file: path.display().to_string(), reason: error.to_string() }.into()
}

fn in_words(text: String) -> Told {
    Failure::Failed(text).into()
}

/// The configuration while a command changes it.
pub struct Edit {
    file: Replacement,
    document: DocumentMut,
    before: Config,
}

impl Edit {
    /// Locks and reads the file. If there is none, [`edit::TEMPLATE`](TEMPLATE) is the start.
    ///
    /// # Errors
    /// When it is invalid or cannot be read.
    pub fn open(path: &Path) -> Result<Self, Told> {
        let file = Replacement::open(path)?;
        let path = &file.path;
        let before = Config::read(path)?;
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => TEMPLATE.into(),
            Err(error) => return Err(cannot_change(path, &error)),
        };
        let document = text.parse::<DocumentMut>().map_err(|error| cannot_change(path, &error))?;
        Ok(Self { file, document, before })
    }

    /// The text as it was read.
    pub fn before(&self) -> &Config {
        &self.before
    }

    fn arrays(&mut self) -> Result<&mut ArrayOfTables, Told> {
        let path = self.file.path.display().to_string();
        let arrays = self.document.entry("array").or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
        arrays.as_array_of_tables_mut().ok_or_else(|| {
            in_words(format!("{path} has its arrays in one line: write each as a part [[array]], then commands can change them"))
        })
    }

    fn index_of(&mut self, uuid: Uuid) -> Result<Option<usize>, Told> {
        let is_it = |table: &Table| table.get("uuid").and_then(Item::as_str).and_then(|text| text.parse().ok()) == Some(uuid);
        Ok(self.arrays()?.iter().position(is_it))
    }

    /// Adds an array, or replaces what is said about it.
    ///
    /// # Errors
    /// When the file is written in a way that commands cannot change.
    pub fn put(&mut self, array: &Array) -> Result<(), Told> {
        let mut table = Table::new();
        if let Some(index) = self.index_of(array.uuid)? {
            let old = self.arrays()?.get_mut(index).expect("it was just found");
            let comments = old.decor().clone();
            fill(old, array);
            *old.decor_mut() = comments;
            return Ok(());
        }
        fill(&mut table, array);
        let end_of_file = positions(&self.document).into_iter().max();
        let last_array = self.arrays()?.iter().last().map(Table::position);
        // Beside the other arrays, if there are any: what follows them stays below.
        if last_array.is_some_and(|position| position.is_some() && position < end_of_file) {
            table.decor_mut().set_prefix("\n");
        } else {
            // Text at the end of the file, such as examples, stays above the new part.
            let end = self.document.trailing().as_str().unwrap_or_default().to_owned();
            self.document.set_trailing("");
            let gap = if self.document.is_empty() && end.is_empty() { "" } else { "\n" };
            table.decor_mut().set_prefix(end + gap);
            table.set_position(end_of_file.map_or(0, |position| position + 1));
        }
        self.arrays()?.push(table);
        Ok(())
    }

    /// Adds image files to those that the daemon looks at, unless they are among them. False: all are.
    ///
    /// # Errors
    /// When the file is written in a way that commands cannot change.
    pub fn search<'a>(&mut self, files: impl Iterator<Item = &'a PathBuf>) -> Result<bool, Told> {
        let known = self.before.daemon.search.clone();
        let is_known = |file: &PathBuf| known.iter().any(|path| file == path || file.parent() == Some(path));
        let mut new: Vec<String> = files.filter(|file| !is_known(file)).map(|file| file.display().to_string()).collect();
        new.sort();
        new.dedup();
        if new.is_empty() {
            return Ok(false);
        }
        let path = self.file.path.display().to_string();
        let daemon = self.document.entry("daemon").or_insert_with(|| Item::Table(Table::new()));
        let search = daemon.as_table_mut().map(|daemon| daemon.entry("search").or_insert_with(|| value(toml_edit::Array::new())));
        let Some(search) = search.and_then(Item::as_array_mut) else {
            return Err(in_words(format!("{path}: write [daemon] as a part of its own, then commands can add to `search`")));
        };
        search.extend(new);
        Ok(true)
    }

    /// Sets the drives of the pool of spares.
    ///
    /// # Errors
    /// When the file is written in a way that commands cannot change.
    pub fn spares(&mut self, drives: &[PathBuf]) -> Result<(), Told> {
        let path = self.file.path.display().to_string();
        let part = self.document.entry("spares").or_insert_with(|| Item::Table(Table::new()));
        let Some(part) = part.as_table_mut() else {
            return Err(in_words(format!("{path}: write [spares] as a part of its own, then commands can change it")));
        };
        let list: toml_edit::Array = drives.iter().map(|drive| drive.display().to_string()).collect();
        part.insert("drives", value(list));
        Ok(())
    }

    /// Sets keys of `[routine]`, and the schedules of single arrays; an empty text takes a key out, so that its default holds.
    ///
    /// # Errors
    /// When the file is written in a way that commands cannot change.
    pub fn routine(&mut self, keys: &[(&str, &str)], scrubs: &BTreeMap<String, String>) -> Result<(), Told> {
        let path = self.file.path.display().to_string();
        let part = self.document.entry("routine").or_insert_with(|| Item::Table(Table::new()));
        let Some(part) = part.as_table_mut() else {
            return Err(in_words(format!("{path}: write [routine] as a part of its own, then commands can change it")));
        };
        let put = |table: &mut Table, key: &str, text: &str| match text {
            "" => drop(table.remove(key)),
            text if table.get(key).and_then(Item::as_str) == Some(text) => {}
            text => drop(table.insert(key, value(text))),
        };
        for (key, text) in keys {
            put(part, key, text);
        }
        let single = part.entry("scrubs").or_insert_with(|| Item::Table(Table::new()));
        let Some(single) = single.as_table_mut() else {
            return Err(in_words(format!("{path}: write [routine.scrubs] as a part of its own, then commands can change it")));
        };
        let gone: Vec<String> = single.iter().map(|(key, _)| key.to_owned()).filter(|key| !scrubs.contains_key(key)).collect();
        for key in gone {
            single.remove(&key);
        }
        for (array, text) in scrubs {
            put(single, array, text);
        }
        if single.is_empty() {
            part.remove("scrubs");
        }
        Ok(())
    }

    /// Sets the addresses of `[alarms.mail]` and the URL of `[alarms] webhook`; what is empty is taken out.
    ///
    /// # Errors
    /// When the file is written in a way that commands cannot change.
    pub fn alarms(&mut self, mail: &[String], webhook: &str) -> Result<(), Told> {
        let path = self.file.path.display().to_string();
        let apart = |name: &str| in_words(format!("{path}: write [{name}] as a part of its own, then commands can change it"));
        let part = self.document.entry("alarms").or_insert_with(|| Item::Table(Table::new()));
        let part = part.as_table_like_mut().ok_or_else(|| apart("alarms"))?;
        match webhook {
            "" => drop(part.remove("webhook")),
            url if part.get("webhook").and_then(Item::as_str) == Some(url) => {}
            url => drop(part.insert("webhook", value(url))),
        }
        let to: toml_edit::Array = mail.iter().collect();
        match part.get_mut("mail") {
            None if mail.is_empty() => {}
            None => {
                let mut table = Table::new();
                table.insert("to", value(to));
                part.insert("mail", Item::Table(table));
            }
            Some(known) => {
                let known = known.as_table_like_mut().ok_or_else(|| apart("alarms.mail"))?;
                // Other keys without an address are a fault of the file, which the check names.
                if mail.is_empty() {
                    drop(known.remove("to"))
                } else {
                    drop(known.insert("to", value(to)))
                }
                if known.is_empty() {
                    part.remove("mail");
                }
            }
        }
        Ok(())
    }

    /// Removes an array; false if it is not there. Comments above it stay.
    ///
    /// # Errors
    /// The errors of [`Edit::put`].
    pub fn remove(&mut self, uuid: Uuid) -> Result<bool, Told> {
        let Some(index) = self.index_of(uuid)? else { return Ok(false) };
        let prefix = |table: &Table| table.decor().prefix().and_then(|text| text.as_str()).unwrap_or_default().to_owned();
        let table = self.arrays()?.get(index).expect("it was just found");
        let (position, above) = (table.position(), prefix(table).trim_end_matches('\n').to_owned());
        let above = if above.is_empty() { above } else { above + "\n" };
        self.arrays()?.remove(index);
        // The comments, which may be the head of the file, stay where they are: above the part that follows, whatever it is.
        let next = positions(&self.document).into_iter().filter(|next| Some(*next) > position).min();
        match next.and_then(|next| table_at(&mut self.document, next)) {
            Some(next) => {
                let own = prefix(next);
                next.decor_mut().set_prefix(above + &own);
            }
            None => {
                let end = self.document.trailing().as_str().unwrap_or_default().to_owned();
                self.document.set_trailing(above + &end);
            }
        }
        if self.arrays()?.is_empty() {
            self.document.remove("array");
        }
        Ok(true)
    }

    /// Checks what would be written.
    ///
    /// # Errors
    /// When it would be invalid.
    pub fn check(&self) -> Result<Config, Told> {
        Config::parse(&self.document.to_string()).map_err(|error| {
            let (file, fault) = (self.file.path.display().to_string(), error.to_string());
            ErrorSentence::ConfigWouldBeInvalid { file, fault }.into()
        })
    }

    /// Refuses a file that could not be replaced, before anything else is done that it is to record.
    ///
    /// # Errors
    /// Its folder cannot be written.
    pub fn refuse_unwritable(&self) -> Result<(), Told> {
        let path = &self.file.path;
        let folder = path.parent().unwrap_or(path);
        let access = rustix::fs::access(folder, rustix::fs::Access::WRITE_OK);
        access.map_err(|error| {
            let (folder, reason) = (folder.display().to_string(), error.to_string());
            ErrorSentence::ConfigFolderUnwritable { folder, reason }.into()
        })
    }

    /// Checks and writes the file. Returns the new configuration.
    ///
    /// # Errors
    /// When it would be invalid, or cannot be written; then nothing has changed.
    pub fn save(self) -> Result<Config, Told> {
        let config = self.check()?;
        let text = self.document.to_string();
        self.file.write(&text)?;
        Ok(config)
    }
}

/// The positions in the file of all parts that are written there.
fn positions(table: &Table) -> Vec<isize> {
    let of = |table: &Table| {
        let own = table.position().filter(|_| !table.is_implicit() && !table.is_dotted());
        own.into_iter().chain(positions(table)).collect::<Vec<_>>()
    };
    let of_item = |(_, item): (&str, &Item)| match item {
        Item::Table(table) => of(table),
        Item::ArrayOfTables(tables) => tables.iter().flat_map(of).collect(),
        Item::None | Item::Value(_) => Vec::new(),
    };
    table.iter().flat_map(of_item).collect()
}

/// The part at this place of the file.
fn table_at(table: &mut Table, position: isize) -> Option<&mut Table> {
    let found = |table: &'_ Table| table.position() == Some(position) && !table.is_implicit() && !table.is_dotted();
    for (_, item) in table.iter_mut() {
        let tables: Vec<&mut Table> = match item {
            Item::Table(table) => vec![table],
            Item::ArrayOfTables(tables) => tables.iter_mut().collect(),
            Item::None | Item::Value(_) => Vec::new(),
        };
        for table in tables {
            if found(table) {
                return Some(table);
            }
            if let Some(table) = table_at(table, position) {
                return Some(table);
            }
        }
    }
    None
}

/// Writes the keys of an array that differ from their defaults; removes the others, which commands may have set before.
fn fill(table: &mut Table, array: &Array) {
    let list = |values: Vec<String>| {
        let list: toml_edit::Array = values.into_iter().collect();
        (!list.is_empty()).then(|| Value::from(list))
    };
    let flag = |is_set: bool, default: bool| (is_set != default).then(|| Value::from(is_set));
    let ublk = match array.ublk {
        Block::None => None,
        Block::Any => Some(Value::from(true)),
        Block::Number(number) => Some(Value::from(i64::from(number))),
    };
    let write = match array.write {
        WriteMode::Safe => None,
        WriteMode::Through => Some("through"),
        WriteMode::Back => Some("back"),
    };
    let disks = array.vhost_user.iter().map(|path| path.display().to_string()).collect();
    let keys: [(&str, Option<Value>); 15] = [
        ("uuid", Some(array.uuid.to_string().into())),
        ("name", array.name.clone().map(Value::from)),
        ("spans", list(array.spans.iter().map(Uuid::to_string).collect())),
        ("start", flag(array.start, true)),
        ("ublk", ublk),
        ("ublk-copy", (array.ublk_copy == UblkCopy::Driver).then(|| "driver".into())),
        ("vhost-user", list(disks)),
        ("vhost-user-group", array.vhost_user_group.clone().map(Value::from)),
        ("read-only", flag(array.read_only, false)),
        ("write", write.map(Value::from)),
        ("drive-caches", array.drive_caches.map(Value::from)),
        ("lanes", array.lanes.map(|lanes| Value::from(i64::from(lanes)))),
        ("nested", (array.nested > 0).then(|| Value::from(i64::from(array.nested)))),
        ("io-poll", flag(array.io_poll, false)),
        ("passthrough", flag(array.passthrough, false)),
    ];
    for (key, wanted) in keys {
        match (wanted, table.get_mut(key)) {
            (Some(wanted), Some(known)) => {
                // A comment behind the value stays.
                let decor = known.as_value().map(|value| value.decor().clone());
                *known = value(wanted);
                if let (Some(value), Some(decor)) = (known.as_value_mut(), decor) {
                    *value.decor_mut() = decor;
                }
            }
            (Some(wanted), None) => drop(table.insert(key, value(wanted))),
            (None, Some(_)) => drop(table.remove(key)),
            (None, None) => {}
        }
    }
}
