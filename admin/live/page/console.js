// The console: commands that read, as one user.

import { $, make } from './draw.js';

const MOST_TYPED = 200; // pieces of the output

export function startConsole(ask) {
  const typed = []; // lines
  let recalled = 0; // which of them the arrow keys are at
  const output = $('output');
  let db = 0;
  let words = null; // that a line may begin with; null: not asked for yet
  const print = (kind, text) => output.append(make('span', { class: kind }, text.replace(/\n?$/, '\n')));

  $('ask').addEventListener('submit', async (e) => {
    e.preventDefault();
    const line = $('line').value;
    if (!line.trim()) {
      return;
    }
    typed.push(line);
    recalled = typed.length;
    $('line').value = '';
    print('typed', `${db || ''}> ${line}`);
    try {
      const answer = await ask('/live/console', { line, db });
      db = answer.db;
      print(answer.error ? 'wrong' : 'reply', answer.text);
    } catch (error) {
      print('wrong', error.message);
    }
    while (output.childNodes.length > MOST_TYPED) {
      output.firstChild.remove();
    }
    output.scrollTop = output.scrollHeight;
  });

  // complete makes the typed line as long as all words agree that begin with it. It prints them if they differ.
  async function complete() {
    const line = $('line').value.trimStart();
    try {
      words ||= (await ask('/live/console', { line: '', words: true })).words;
    } catch (error) {
      print('wrong', error.message);
      return;
    }
    const isHelp = /^help /i.test(line);
    const start = isHelp ? line.slice(0, 5) : '';
    const typedWord = line.slice(start.length).toLowerCase();
    const found = words.filter((w) => w.startsWith(typedWord) && (w.includes(' ') === typedWord.includes(' ')));
    if (!found.length) {
      return;
    }
    let same = found[0];
    while (!found.every((w) => w.startsWith(same))) {
      same = same.slice(0, -1);
    }
    if (found.length === 1) {
      same += ' ';
    } else if (same === typedWord) {
      print('soft', found.join('  '));
      output.scrollTop = output.scrollHeight;
    }
    $('line').value = start + same.toUpperCase();
  }

  $('line').addEventListener('keydown', (e) => {
    if (e.key === 'Tab' && !e.shiftKey && $('line').value.trim()) {
      e.preventDefault();
      complete();
    }
    const move = { ArrowUp: -1, ArrowDown: 1 }[e.key];
    if (move && typed.length) {
      e.preventDefault();
      recalled = Math.min(typed.length, Math.max(0, recalled + move));
      $('line').value = typed[recalled] || '';
    }
    if (e.key === 'Escape') {
      $('line').blur();
    }
  });
}
