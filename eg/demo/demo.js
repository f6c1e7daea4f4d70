// The panels of the demonstration page, in the order in which they stand.
// Addresses are relative, so that the application may be mounted anywhere.

const $ = id => document.getElementById(id);
const number = (value, digits = 0) => new Intl.NumberFormat('en', {
  minimumFractionDigits: digits, maximumFractionDigits: digits,
}).format(value);
const bytes = n => n < 1024 ? `${n} bytes` : n < 1048576 ? `${number(n / 1024, 1)} KiB` : `${number(n / 1048576, 1)} MiB`;
const rate = (n, ms) => n / 1048576 / Math.max(ms / 1000, 1e-4);

function element(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

function report(id, message, kind = '') {
  $(id).className = `result ${kind}`;
  $(id).replaceChildren(message);
}

async function get(path) {
  const response = await fetch(path, { cache: 'no-store' });
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  return response;
}

// ------------------------------------------------------------- keep-alive

const BIN = 100;         // milliseconds that one point of the chart stands for
const BINS = 100;        // points in the chart
const RECENT = 5000;     // the percentiles are those of this many requests

const ping = { running: false, total: 0, recent: [], bins: new Map(), ports: new Set(), workers: new Set(), began: 0, ended: 0 };

function quantile(sorted, q) {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))];
}

async function pingLane(run) {
  while (ping.running === run) {
    const sent = performance.now();
    const [worker, , port] = (await (await get('ping')).text()).split(' ');
    const now = performance.now();
    const bin = Math.floor(now / BIN);
    ping.total++;
    ping.ports.add(port.trim());
    ping.workers.add(worker);
    ping.recent.push(now - sent);
    if (ping.recent.length > RECENT) ping.recent.shift();
    if (!ping.bins.has(bin)) ping.bins.set(bin, []);
    ping.bins.get(bin).push(now - sent);
  }
}

function pingDraw() {
  const now = performance.now();
  const last = Math.floor((ping.running ? now : ping.ended) / BIN) - (ping.running ? 1 : 0);
  const first = last - BINS + 1;
  const points = [];
  for (const [bin, times] of ping.bins) {
    if (bin < first) { ping.bins.delete(bin); continue; }
    if (bin > last) continue;
    const sorted = times.slice().sort((a, b) => a - b);
    points.push({ x: bin - first, count: times.length, median: quantile(sorted, .5), max: sorted[sorted.length - 1] });
  }
  points.sort((a, b) => a.x - b.x);

  // The rate is that of the last second, or of the whole run once it ended.
  const span = Math.max(ping.ended - ping.began, 1);
  const second = points.filter(point => point.x >= BINS - 10);
  const elapsed = Math.min(10, Math.max(1, (now - ping.began) / BIN - 1));
  const perSecond = ping.running ? second.reduce((sum, point) => sum + point.count, 0) / elapsed * (1000 / BIN) : ping.total / span * 1000;

  const sorted = ping.recent.slice().sort((a, b) => a - b);
  $('ping-rate').textContent = number(perSecond);
  $('ping-median').textContent = sorted.length ? number(quantile(sorted, .5), 2) : '–';
  $('ping-p99').textContent = sorted.length ? number(quantile(sorted, .99), 2) : '–';
  $('ping-total').textContent = number(ping.total);
  $('ping-connections').textContent = ping.ports.has('0') ? 'n/a' : number(ping.ports.size);
  $('ping-workers').textContent = number(ping.workers.size);
  if (!points.length) return;

  const top = Math.max(1, ...points.map(point => point.max));
  const at = (point, value) => `${(point.x / (BINS - 1) * 100).toFixed(2)},${(39 - value / top * 37).toFixed(2)}`;
  $('ping-chart').querySelector('.line').setAttribute('d', 'M' + points.map(point => at(point, point.median)).join('L'));
  $('ping-chart').querySelector('.band').setAttribute('d',
    'M' + points.map(point => at(point, point.max)).join('L') + 'L' + points.reverse().map(point => at(point, point.median)).join('L') + 'Z');
  $('ping-scale').textContent = `top of the chart: ${number(top, 1)} ms`;
}

async function pingStart(limit = Infinity) {
  const run = ping.running = Symbol('run');
  Object.assign(ping, { total: 0, recent: [], bins: new Map(), ports: new Set(), workers: new Set(), began: performance.now() });
  $('ping-run').textContent = 'Stop';
  const redraw = setInterval(pingDraw, 200);
  if (limit < Infinity) setTimeout(() => pingStop(run), limit);
  try {
    await Promise.all(Array.from({ length: +$('ping-lanes').value }, () => pingLane(run)));
  } catch (error) {
    $('ping-scale').textContent = `Stopped: ${error.message}`;
    pingStop(run);
  }
  clearInterval(redraw);
  if (!ping.running) pingDraw();
}

function pingStop(run = ping.running) {
  if (ping.running !== run) return;
  ping.running = false;
  ping.ended = performance.now();
  $('ping-run').textContent = 'Start';
}

$('ping-form').addEventListener('submit', event => {
  event.preventDefault();
  ping.running ? pingStop() : pingStart();
});
$('ping-lanes').addEventListener('input', () => {
  $('ping-lanes-value').value = $('ping-lanes').value;
  if (ping.running) pingStart();
});

// -------------------------------------------------------------- streaming

async function stream() {
  const list = $('stream-lines');
  $('stream-run').disabled = true;
  list.replaceChildren();
  report('stream-result', 'Waiting for the first line');
  try {
    const sent = performance.now();
    const reader = (await get('stream?lines=12&pause=0.25')).body.pipeThrough(new TextDecoderStream()).getReader();
    let pieces = 0, first = 0, rest = '';
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      pieces++;
      first ||= performance.now() - sent;
      const lines = (rest + value).split('\n');
      rest = lines.pop();
      for (const line of lines) {
        const at = `${number(performance.now() - sent)} ms`;
        list.append(element('li', {}, element('span', { className: 'at', textContent: at }), element('span', { textContent: line })));
      }
      list.scrollTop = list.scrollHeight;
      report('stream-result', `${list.children.length} lines in ${pieces} pieces so far`);
    }
    report('stream-result', `${list.children.length} lines in ${pieces} pieces, the first after ${number(first, 1)} ms`, 'good');
  } catch (error) {
    report('stream-result', `The stream broke off: ${error.message}`, 'bad');
  }
  $('stream-run').disabled = false;
}
$('stream-run').addEventListener('click', stream);

// ----------------------------------------------------------------- upload

const hex = buffer => Array.from(new Uint8Array(buffer), byte => byte.toString(16).padStart(2, '0')).join('');

// The browser's own digest, to compare. Only secure origins and the machine
// itself have crypto.subtle, and a very large file does not fit in memory.
async function ownDigest(blob) {
  if (!window.crypto?.subtle || blob.size > 256 * 1048576) return null;
  return hex(await crypto.subtle.digest('SHA-256', await blob.arrayBuffer()));
}

function send(blob, progress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.upload.onprogress = event => progress(event.loaded / event.total);
    request.onload = () => request.status === 200 ? resolve(JSON.parse(request.response)) : reject(new Error(`the server answered ${request.status}`));
    request.onerror = () => reject(new Error('the connection was lost'));
    request.open('POST', 'upload');
    request.setRequestHeader('Content-Type', 'application/octet-stream');
    request.send(blob);
  });
}

function uploadReport(...pairs) {
  $('upload-result').replaceChildren(...pairs.map(([name, value, className = '']) =>
    element('div', {}, element('dt', { textContent: name }), element('dd', { textContent: value, className }))));
}

async function upload(blob) {
  $('upload-random').disabled = $('upload-file').disabled = true;
  uploadReport(['Sending', bytes(blob.size)]);
  try {
    const expected = ownDigest(blob);
    const began = performance.now();
    const got = await send(blob, part => { $('upload-progress').value = part; });
    const took = performance.now() - began;
    const own = await expected;
    $('upload-progress').value = 1;
    uploadReport(
      ['Received', `${number(got.bytes)} bytes by worker ${got.worker}`],
      ['Took', `${number(took)} ms, ${number(rate(got.bytes, took), 1)} MiB/s; the application ${number(got.app_seconds * 1000, 1)} ms of it`],
      ['Body', got.buffered ? 'complete before the application was called' : 'read while the application ran'],
      ['SHA-256', got.sha256, 'hex'],
      own === null ? ['Check', 'no digest of the browser to compare with']
        : own === got.sha256 ? ['Check', 'the browser computes the same', 'good'] : ['Check', `the browser computes ${own}`, 'bad hex'],
    );
  } catch (error) {
    uploadReport(['Failed', error.message, 'bad']);
  }
  $('upload-random').disabled = $('upload-file').disabled = false;
  $('upload-file').value = '';
}

function randomBytes(size) {
  const data = new Uint8Array(size);
  for (let at = 0; at < size; at += 65536) crypto.getRandomValues(data.subarray(at, at + 65536));
  return new Blob([data]);
}

$('upload-random').addEventListener('click', () => upload(randomBytes(16 * 1048576)));
$('upload-file').addEventListener('change', event => { if (event.target.files[0]) upload(event.target.files[0]); });
for (const [type, over] of [['dragenter', true], ['dragover', true], ['dragleave', false], ['drop', false]]) {
  $('upload-drop').addEventListener(type, event => {
    event.preventDefault();
    $('upload-drop').classList.toggle('over', over);
    if (type === 'drop' && event.dataTransfer.files[0] && !$('upload-file').disabled) upload(event.dataTransfer.files[0]);
  });
}

// --------------------------------------------------------------- the wire

const count = (text, pattern) => (text.match(pattern) || []).length;

// What there is to see in a dialogue, from what really came.
const wireNotes = {
  hints(answer, events) {
    const hint = events.find(event => event.bytes.startsWith('HTTP/1.1 103'));
    if (!hint) return ['This server sends no early hints: the application found no psgix.informational.', ''];
    const last = events[events.length - 1];
    return [`The 103 came after ${number(hint.ms, 1)} ms, the answer itself after ${number(last.ms, 1)} ms: time in which a client already fetches the style sheet.`, 'good'];
  },
  pipeline(answer, events) {
    const answers = count(answer, /^HTTP\/1\.1 200/gm), reads = events.length - 1;
    return [`${answers} of 4 requests, sent in one piece, were answered in order, in ${reads} ${reads === 1 ? 'piece' : 'pieces'}.`, answers === 4 ? 'good' : 'bad'];
  },
  chunked(answer) {
    return /transfer-encoding: chunked/i.test(answer)
      ? ['No length is known in advance: each write of the application leaves as a chunk with its size in hexadecimal, and an empty one ends the answer.', 'good']
      : ['This server ends the answer by closing the connection.', ''];
  },
  continue(answer) {
    return answer.startsWith('HTTP/1.1 100')
      ? ['The client asked before it sent its body, and was told to go on.', 'good']
      : ['The server answered without 100 Continue.', ''];
  },
  refused(answer) {
    return /^HTTP\/1\.1 4/.test(answer)
      ? ['Two lengths that contradict each other are how requests are smuggled past proxies. Refused, and the connection closed.', 'good']
      : ['This server accepted a request with two contradicting lengths.', 'bad'];
  },
};

function wireEvent({ from, ms, bytes: data }) {
  const pre = element('pre');
  data.split('\r\n').forEach((line, index, all) => {
    pre.append(line);
    if (index < all.length - 1) pre.append(element('span', { className: 'eol', textContent: '↵', ariaHidden: 'true' }), '\n');
  });
  const who = element('div', { className: 'who' }, from === 'client' ? '→ client' : '← server',
    element('small', { textContent: `${number(ms, 1)} ms, ${bytes(data.length)}` }));
  return element('article', { className: from }, who, pre);
}

async function wire(name) {
  for (const button of $('wire-choice').children) button.setAttribute('aria-pressed', button.value === name);
  report('wire-note', 'Listening');
  try {
    const { events, problem } = await (await get(`wire?show=${name}`)).json();
    if (problem) throw new Error(problem);
    const answer = events.filter(event => event.from === 'server').map(event => event.bytes).join('');
    if (!answer) throw new Error('No answer came within five seconds.');
    $('wire-events').replaceChildren(...events.map(wireEvent));
    report('wire-note', ...wireNotes[name](answer, events));
  } catch (error) {
    $('wire-events').replaceChildren();
    report('wire-note', error.message, 'bad');
  }
}
$('wire-choice').addEventListener('click', event => { if (event.target.value) wire(event.target.value); });

// ----------------------------------------------------------- a large file

const runs = [];

function runsDraw() {
  const best = Math.max(...runs);
  $('file-runs').replaceChildren(...runs.map(speed => {
    const bar = element('i');
    bar.style.width = `${speed / best * 100}%`;
    return element('li', {}, bar, `${number(speed)} MiB/s`);
  }));
}

async function download() {
  $('file-run').disabled = true;
  try {
    const began = performance.now();
    const response = await get('file?mib=64');
    const size = +response.headers.get('Content-Length');
    const reader = response.body.getReader();
    let got = 0, shown = 0;
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      got += value.length;
      if (performance.now() - shown > 50) {
        shown = performance.now();
        $('file-progress').value = size ? got / size : 0;
        $('file-rate').textContent = number(rate(got, shown - began));
      }
    }
    const took = performance.now() - began;
    $('file-progress').value = 1;
    $('file-rate').textContent = number(rate(got, took));
    if (runs.push(rate(got, took)) > 6) runs.shift();
    runsDraw();
    report('file-result', `${bytes(got)} in ${number(took)} ms, whole`, 'good');
    if (got !== size) report('file-result', `${number(got)} of ${number(size)} bytes came`, 'bad');
  } catch (error) {
    report('file-result', `The download broke off: ${error.message}`, 'bad');
  }
  $('file-run').disabled = false;
}
$('file-run').addEventListener('click', download);

// -------------------------------------------------------- the environment

async function environment() {
  const response = await get('env');
  const { server, env } = await response.json();
  const value = Object.fromEntries(env);
  const yes = key => value[key] && !['0', '(empty)', 'undef'].includes(value[key]);

  $('fact-server').textContent = response.headers.get('Server') || server || 'unnamed';
  $('fact-protocol').textContent = value.SERVER_PROTOCOL || 'unknown';
  $('fact-psgi').textContent = 'PSGI ' + (value['psgi.version'] || '').replace(/[^\d,]/g, '').replace(',', '.');
  $('fact-model').textContent = yes('psgi.multiprocess') ? 'several workers' : yes('psgi.multithread') ? 'several threads' : 'one';
  $('fact-input').textContent = yes('psgix.input.buffered') ? 'buffered first' : 'read on demand';
  $('env-rows').replaceChildren(...env.map(([key, text]) =>
    element('tr', {}, element('td', { textContent: key }), element('td', { textContent: text }))));
}
$('env-run').addEventListener('click', environment);

// One after the other, so that no panel disturbs what another one measures.
environment()
  .then(() => wire('hints'))
  .then(() => pingStart(4000))
  .then(stream)
  .then(download)
  .catch(error => report('wire-note', `The server does not answer: ${error.message}`, 'bad'));
