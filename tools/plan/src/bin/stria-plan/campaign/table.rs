//! The table of a campaign: of each advice the array that it ranks first, of each what-if all variants, of a reproduction what it
//! counts.

use super::folder::Answer;
use serde_json::Value;
use stria_terminal::output::table;

/// A row: figures as they stand in the answers, or a sentence in their place.
struct Row {
    job: usize,
    asked: String,
    /// "advised", "one drive more".
    what: String,
    figures: Option<Value>,
    sentence: String,
}

/// Columns of figures: name, and where it stands.
const FIGURES: [(&str, &str); 14] = [
    ("level", "/level"),
    ("members", "/members"),
    ("spares", "/spares"),
    ("strip_kib", "/strip_kib"),
    ("usable_bytes", "/usable_bytes"),
    ("survives", "/survives"),
    ("speed", "/speed"),
    ("degraded_speed", "/degraded_speed"),
    ("iops", "/loads/0/iops"),
    ("bytes_per_s", "/loads/0/bytes_per_s"),
    ("mean_us", "/loads/0/mean_us"),
    ("read_p99_us", "/loads/0/read_p99_us"),
    ("write_p99_us", "/loads/0/write_p99_us"),
    ("loss_per_year", "/loss_per_year"),
];

fn rows(answers: &[Answer]) -> Vec<Row> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut rows = Vec::new();
    for (index, found) in answers.iter().enumerate() {
        let answer = &found.answer;
        let mut add = |what: &str, figures: Option<&Value>, sentence: String| {
            rows.push(Row {
                job: index + 1,
                asked: found.job.clone(),
                what: what.to_owned(),
                figures: figures.cloned(),
                sentence,
            });
        };
        if let Some(sentence) = found.failure() {
            add("failed", None, sentence.to_owned());
        } else if let Some(first) = answer.pointer("/ranking/0") {
            add("advised", Some(first), text(&answer["reasons"][0]));
        } else if let Some(variants) = answer["variants"].as_array() {
            variants.iter().for_each(|variant| add(&text(&variant["change"]), variant.get("figures"), text(&variant["refusal"])));
        } else {
            add("reproduced", None, reproduced(answer));
        }
    }
    rows
}

/// "93 of 93 predicted numbers within 10 %, 47 of 51 inequalities hold".
fn reproduced(answer: &Value) -> String {
    let list = |name: &str| answer[name].as_array().map_or(&[][..], Vec::as_slice);
    let predicted: Vec<f64> =
        list("numbers").iter().filter(|row| row["kind"] == "predicted").filter_map(|row| row["error"].as_f64()).collect();
    let near = predicted.iter().filter(|error| error.abs() <= 0.1).count();
    let holds = list("sentences").iter().filter(|sentence| sentence["holds"] == true).count();
    let (numbers, sentences) = (predicted.len(), list("sentences").len());
    format!("{near} of {numbers} predicted numbers within 10 %, {holds} of {sentences} inequalities hold")
}

/// The table in words.
pub fn words(answers: &[Answer]) -> String {
    const HEADER: [&str; 11] =
        ["JOB", "ANSWER", "LEVEL", "DRIVES", "STRIP", "USABLE", "SURVIVES", "SPEED", "IOPS", "MEAN", "LOSS A YEAR"];
    let right: Vec<usize> = (3..HEADER.len()).collect();
    let rows = rows(answers);
    let cells = |row: &Row| {
        let figure = |place: &str| row.figures.as_ref().and_then(|figures| figures.pointer(place)?.as_f64());
        let cell = |place: &str, show: &dyn Fn(f64) -> String| figure(place).map_or("-".to_owned(), show);
        let whole = |value: f64| format!("{value:.0}");
        let level = row.figures.as_ref().and_then(|figures| figures["level"].as_str()).unwrap_or("-");
        vec![
            row.job.to_string(),
            row.what.clone(),
            level.to_owned(),
            cell("/members", &whole),
            cell("/strip_kib", &|kib| format!("{kib:.0}K")),
            cell("/usable_bytes", &stria_plan::amount::space),
            cell("/survives", &whole),
            cell("/speed", &|speed| format!("{speed:.2}x")),
            cell("/loads/0/iops", &whole),
            cell("/loads/0/mean_us", &|us| stria_plan::advice::explain::time(us * 1e3)),
            cell("/loss_per_year", &stria_plan::advice::explain::risk),
        ]
    };
    let mut text = table(&HEADER, &right, rows.iter().map(cells).collect()) + "\n";
    for (index, answer) in answers.iter().enumerate() {
        text += &format!("{}: {}\n", index + 1, answer.job);
        let of_job = rows.iter().filter(|row| row.job == index + 1 && !row.sentence.is_empty());
        of_job.for_each(|row| text += &format!("   {}: {}\n", row.what, row.sentence));
    }
    text
}

/// The table as CSV, all figures as they are.
pub fn csv(answers: &[Answer]) -> String {
    let mut text = "job,asked,answer".to_owned();
    FIGURES.iter().for_each(|(name, _)| text += &format!(",{name}"));
    text += ",sentence\n";
    for row in rows(answers) {
        text += &format!("{},{},{}", row.job, field(&row.asked), field(&row.what));
        for (_, place) in FIGURES {
            let value = row.figures.as_ref().and_then(|figures| figures.pointer(place)).unwrap_or(&Value::Null);
            text += &match value {
                Value::Null => ",".to_owned(),
                Value::String(words) => format!(",{}", field(words)),
                number => format!(",{number}"),
            };
        }
        text += &format!(",{}\n", field(&row.sentence));
    }
    text
}

/// Text as a field of CSV, in quotes where it needs them.
fn field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}
