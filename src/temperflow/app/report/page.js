// Paper cannot be unfolded.
addEventListener("beforeprint", () => { document.querySelector("details.printed").open = true; });

// Moves the particles. No library, no network; without it the page shows still pictures instead.
(() => {
  const root = document.getElementById("way");
  if (!root) return;
  const data = JSON.parse(root.querySelector("script").textContent);
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const tracks = {};
  for (const [name, track] of Object.entries(data.tracks)) {
    const x = new DataView(bytes(track.x).buffer);
    const frames = track.times.length;
    tracks[name] = {
      times: track.times,
      count: x.byteLength / 4 / frames,
      at: (i) => x.getInt16(2 * i, true) / data.unit,
      beta: track.beta ? bytes(track.beta) : null,
    };
  }
  const canvas = root.querySelector("canvas");
  const pen = canvas.getContext("2d");
  const slider = root.querySelector("input[type=range]");
  const button = root.querySelector("button");
  const output = root.querySelector("output");
  let current = tracks.flow;
  const cold = [58, 118, 184], hot = [212, 102, 59];
  const palette = Array.from({ length: 256 }, (_, i) =>
    `rgba(${cold.map((c, k) => Math.round(hot[k] + (c - hot[k]) * (i / 255))).join(",")},0.8)`);

  function draw() {
    const t = slider.value / 1000;
    const { times, count, at, beta } = current;
    let right = times.findIndex((time) => time >= t);
    if (right < 0) right = times.length - 1;
    const left = Math.max(0, right - 1);
    const share = right === left ? 0 : (t - times[left]) / (times[right] - times[left]);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    for (let i = 0; i < count; i++) {
      const a = 2 * (left * count + i), b = 2 * (right * count + i);
      const x = at(a) + share * (at(b) - at(a));
      const y = at(a + 1) + share * (at(b + 1) - at(a + 1));
      pen.fillStyle = palette[beta ? beta[(share < 0.5 ? left : right) * count + i] : 255];
      pen.beginPath();
      pen.arc(x * canvas.width, (1 - y) * canvas.height, 5, 0, 6.2832);
      pen.fill();
    }
    output.textContent = `t = ${t.toFixed(2)}`;
  }

  let playing = null;
  function stop() {
    if (playing !== null) cancelAnimationFrame(playing);
    playing = null;
    button.textContent = "play";
  }
  button.addEventListener("click", () => {
    if (playing !== null) return stop();
    if (slider.value >= 1000) slider.value = 0;
    button.textContent = "pause";
    let last = performance.now();
    const tick = (now) => {
      slider.value = Math.min(1000, +slider.value + (now - last) / 6);
      last = now;
      draw();
      if (slider.value >= 1000) return stop();
      playing = requestAnimationFrame(tick);
    };
    playing = requestAnimationFrame(tick);
  });
  slider.addEventListener("input", () => { stop(); draw(); });
  for (const radio of root.querySelectorAll("input[type=radio]")) {
    radio.addEventListener("change", () => { current = tracks[radio.value]; draw(); });
  }
  document.documentElement.classList.add("moving");
  draw();
})();
