"use strict";
const UNSURE = 0.8;
const at = (id) => document.getElementById(id);
const limits = document.querySelector("main").dataset;
let recording = null;

function report(status, error = "") {
  at("status").textContent = status;
  at("error").textContent = error;
}

/* Encode Float32 blocks as a 16-bit mono WAV file, because the server cannot read every format that browsers record. */
function wav(blocks, rate) {
  const count = blocks.reduce((sum, block) => sum + block.length, 0);
  const view = new DataView(new ArrayBuffer(44 + 2 * count));
  const text = (offset, letters) => [...letters].forEach((c, i) => view.setUint8(offset + i, c.charCodeAt(0)));
  text(0, "RIFF"); view.setUint32(4, 36 + 2 * count, true); text(8, "WAVEfmt "); view.setUint32(16, 16, true);
  view.setUint16(20, 1, true); view.setUint16(22, 1, true); view.setUint32(24, rate, true);
  view.setUint32(28, 2 * rate, true); view.setUint16(32, 2, true); view.setUint16(34, 16, true);
  text(36, "data"); view.setUint32(40, 2 * count, true);
  let offset = 44;
  for (const block of blocks) {
    for (const value of block) {
      view.setInt16(offset, Math.round(32767 * Math.max(-1, Math.min(1, value))), true);
      offset += 2;
    }
  }
  return new Blob([view.buffer], { type: "audio/wav" });
}

/* Read a microphone at 16 kHz, which the models hear, or at its own rate in browsers that do not convert (Firefox). */
function read(stream) {
  const context = new AudioContext({ sampleRate: 16000 });
  try {
    return { context, source: context.createMediaStreamSource(stream) };
  } catch {
    context.close();
    const own = new AudioContext();
    return { context: own, source: own.createMediaStreamSource(stream) };
  }
}

async function start() {
  report("");
  if (!navigator.mediaDevices) throw new Error("this browser does not let this page use a microphone");
  at("record").disabled = true;  // until the user has answered: a second click would open a second microphone
  try {
    record(await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } }));
  } finally {
    at("record").disabled = false;
  }
}

function record(stream) {
  const { context, source } = read(stream);
  // An AudioWorklet would need a separate file. This older node needs none, and every browser supports it.
  const tap = context.createScriptProcessor(4096, 1, 1);
  const blocks = [];
  tap.onaudioprocess = (event) => {
    blocks.push(new Float32Array(event.inputBuffer.getChannelData(0)));
    const seconds = (blocks.length * 4096) / context.sampleRate;
    at("clock").textContent = `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;
    const full = seconds > 60 * limits.minutes - 1 || seconds * context.sampleRate * 2 > 1e6 * limits.megabytes - 1e5;
    if (full) stop("the recording was as long as is allowed");
  };
  source.connect(tap);
  tap.connect(context.destination);
  recording = { stream, context, tap, blocks };
  at("record").textContent = "Stop";
  at("record").setAttribute("aria-pressed", "true");
  report("Recording");
}

async function stop(reason = "") {
  if (!recording) return;
  const { stream, context, tap, blocks } = recording;
  recording = null;
  tap.onaudioprocess = null;
  stream.getTracks().forEach((track) => track.stop());
  const rate = context.sampleRate;
  await context.close();
  at("record").textContent = "Record";
  at("record").setAttribute("aria-pressed", "false");
  at("clock").textContent = "";
  if (!blocks.length) return report("", "nothing was recorded");
  await send(wav(blocks, rate), reason);
}

function busy(on) {
  at("record").disabled = at("file").disabled = on;
}

async function send(blob, reason = "") {
  at("result").hidden = true;
  if (blob.size > 1e6 * limits.megabytes) return report("", `the recording is over ${limits.megabytes} MB`);
  report("Transcribing …");
  busy(true);
  try {
    const headers = { "Content-Type": "application/octet-stream" };
    const response = await fetch("/transcribe", { method: "POST", headers, body: blob });
    const content = await response.json().catch(() => ({}));
    if (!response.ok || !content.words) throw new Error(content.detail || `the server answered with status ${response.status}`);
    show(content, blob);
    const length = `${content.seconds.toFixed(1)} s of audio`;
    report([content.words.length ? length : "no words were recognised", content.doubt, reason].filter(Boolean).join("; "));
  } catch (error) {
    report("", error instanceof TypeError ? "the server does not respond" : error.message);
  } finally {
    busy(false);
  }
}

function link(id, text, kind) {
  URL.revokeObjectURL(at(id).href);
  at(id).href = URL.createObjectURL(new Blob([text], { type: kind }));
}

function show(content, blob) {
  const player = at("player");
  URL.revokeObjectURL(player.src);
  player.src = URL.createObjectURL(blob);
  player.hidden = false;
  at("text").replaceChildren(...content.words.flatMap((word) => {
    const button = document.createElement("button");
    const sure = Math.round(100 * word.confidence);
    button.type = "button";
    button.textContent = word.word;
    button.title = `${word.start.toFixed(2)} to ${word.end.toFixed(2)} s, confidence ${sure} %`;
    button.className = word.confidence < UNSURE ? "unsure" : "";
    button.onclick = () => { player.currentTime = word.start; player.play(); };
    return [button, " "];
  }));
  const { srt, doubt, ...rest } = content;
  link("json", JSON.stringify(rest, null, 2), "application/json");
  link("srt", srt, "text/plain");
  at("copy").onclick = async () => {
    try {
      await navigator.clipboard.writeText(content.text);
      report("copied");
    } catch {
      report("", "the browser does not let this page copy");
    }
  };
  at("result").hidden = !content.words.length;
  if (content.words.length) at("text").focus();
}

at("record").onclick = async () => {
  try {
    await (recording ? stop() : start());
  } catch (error) {
    const message = error.name === "NotAllowedError" ? "this page is not allowed to use the microphone" : error.message;
    report("", message);
  }
};
at("file").onchange = () => { if (at("file").files.length) send(at("file").files[0]); };
