//! The description of a command line, as JSON: `stria` gets it from its tools, since its completions name their options too.

use clap::builder::PossibleValue;
use clap::{Arg, ArgAction, Command, ValueHint};
use serde_json::{Value, json};

/// The argument that makes a tool print its description.
pub const FLAG: &str = "--describe-command-line";

/// Names, options and subcommands, without the options of every command (`--help`, `--json`).
pub fn describe(mut command: Command) -> Value {
    command.build();
    described(&command)
}

fn described(command: &Command) -> Value {
    let own = |argument: &&Arg| !matches!(argument.get_id().as_str(), "help" | "version" | "json") && !argument.is_hide_set();
    let arguments: Vec<Value> = command.get_arguments().filter(own).map(argument).collect();
    let subcommands = command.get_subcommands().filter(|command| command.get_name() != "help");
    json!({
        "name": command.get_name(),
        "about": command.get_about().map(ToString::to_string),
        "arguments": arguments,
        "subcommands": subcommands.map(described).collect::<Vec<_>>(),
    })
}

fn argument(argument: &Arg) -> Value {
    let value = |value: &PossibleValue| json!({"name": value.get_name(), "help": value.get_help().map(ToString::to_string)});
    let values: Vec<Value> = argument.get_possible_values().iter().filter(|_| takes_value(argument)).map(value).collect();
    // A flag has one too, which has no meaning.
    let value_name = argument.get_value_names().and_then(|names| names.first()).filter(|_| takes_value(argument));
    json!({
        "id": argument.get_id().as_str(),
        "short": argument.get_short_and_visible_aliases().unwrap_or_default(),
        "long": argument.get_long_and_visible_aliases().unwrap_or_default(),
        "help": argument.get_help().map(ToString::to_string),
        "takes_value": takes_value(argument),
        "several": matches!(argument.get_action(), ArgAction::Append),
        "last": argument.is_last_set(),
        "value_name": value_name.map(|name| name.as_str()),
        "values": values,
        "hint": format!("{:?}", argument.get_value_hint()),
    })
}

fn takes_value(argument: &Arg) -> bool {
    argument.get_action().takes_values()
}

/// The command of a description, with the name `name`: for completions, not for parsing. Its strings are leaked, as the parser
/// needs them to be static.
pub fn command(name: &'static str, description: &Value) -> Command {
    let list = |key: &str| description[key].as_array().cloned().unwrap_or_default();
    let mut command = Command::new(name).args(list("arguments").iter().map(argument_of));
    if let Some(about) = word(&description["about"]) {
        command = command.about(about);
    }
    let named = list("subcommands").into_iter().filter_map(|sub| word(&sub["name"]).map(|name| self::command(name, &sub)));
    command.subcommands(named)
}

fn argument_of(description: &Value) -> Arg {
    let words = |key: &str| description[key].as_array().into_iter().flatten().filter_map(word).collect::<Vec<_>>();
    let is = |key: &str| description[key] == true;
    let mut argument = Arg::new(word(&description["id"]).unwrap_or_default());
    let (longs, shorts) = (words("long"), words("short"));
    let shorts: Vec<char> = shorts.iter().filter_map(|short| short.chars().next()).collect();
    if let [long, aliases @ ..] = &longs[..] {
        argument = argument.long(*long).visible_aliases(aliases.to_vec());
    }
    if let [short, aliases @ ..] = &shorts[..] {
        argument = argument.short(*short).visible_short_aliases(aliases.to_vec());
    }
    if let Some(help) = word(&description["help"]) {
        argument = argument.help(help);
    }
    if !is("takes_value") {
        return argument.action(ArgAction::SetTrue);
    }
    if let Some(name) = word(&description["value_name"]) {
        argument = argument.value_name(name);
    }
    let value = |value: &Value| {
        let named = PossibleValue::new(word(&value["name"])?);
        Some(match word(&value["help"]) {
            Some(help) => named.help(help),
            None => named,
        })
    };
    let values: Vec<PossibleValue> = description["values"].as_array().into_iter().flatten().filter_map(value).collect();
    if !values.is_empty() {
        argument = argument.value_parser(values);
    }
    let hint = description["hint"].as_str().and_then(|hint| hint.parse().ok()).unwrap_or(ValueHint::Unknown);
    argument = argument.value_hint(hint).last(is("last"));
    match is("several") {
        true if longs.is_empty() => argument.action(ArgAction::Append).num_args(1..),
        true => argument.action(ArgAction::Append),
        false => argument,
    }
}

fn word(value: &Value) -> Option<&'static str> {
    value.as_str().map(|text| &*text.to_owned().leak())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, Parser, Subcommand, ValueEnum};
    use std::path::PathBuf;

    #[derive(Parser)]
    #[command(name = "stria tool")]
    struct Tool {
        #[arg(long, global = true)]
        json: bool,
        #[command(subcommand)]
        what: What,
    }

    #[derive(Subcommand)]
    enum What {
        /// Does it.
        Run(Run),
    }

    #[derive(Args)]
    struct Run {
        /// How much.
        #[arg(long, short, visible_alias = "much", value_name = "SIZE")]
        size: Option<u64>,
        #[arg(long)]
        kind: Vec<Kind>,
        #[arg(long)]
        fast: bool,
        #[arg(value_hint = ValueHint::FilePath)]
        files: Vec<PathBuf>,
        #[arg(last = true)]
        others: Vec<PathBuf>,
    }

    #[derive(Clone, ValueEnum)]
    enum Kind {
        /// The first.
        One,
        Two,
    }

    /// A command that was described and made again describes itself alike.
    #[test]
    fn a_command_comes_back_from_its_description() {
        use clap::CommandFactory;
        let description = describe(Tool::command());
        let mut again = command("stria tool", &description);
        again.build();
        assert_eq!(described(&again), description);
        let run = &description["subcommands"][0];
        let ids: Vec<&str> = run["arguments"].as_array().expect("a list").iter().filter_map(|one| one["id"].as_str()).collect();
        assert_eq!((run["name"].as_str(), run["about"].as_str()), (Some("run"), Some("Does it")));
        assert_eq!(ids, ["size", "kind", "fast", "files", "others"]);
        assert_eq!(run["arguments"][0]["long"], json!(["size", "much"]));
        assert_eq!(run["arguments"][1]["values"], json!([{"name": "one", "help": "The first"}, {"name": "two", "help": null}]));
        assert_eq!(run["arguments"][3]["hint"], "FilePath");
    }
}
