-- What the benchmark asks of wrk beyond its options:
--
--     wrk -s wrk.lua URL -- KEY=VALUE...
--
--     pipeline=N            every write carries N requests (1)
--     file=PATH type=TEXT   POST the bytes of this file with this content type
--
-- The request is made once, before the first is sent, and nothing here runs while wrk measures. In the end comes a line
-- of JSON with what wrk itself prints rounded, and with percentiles that it does not print; times are microseconds.
function init(args)
   local set = {}
   for _, argument in ipairs(args) do
      local key, value = string.match(argument, "^(%w+)=(.*)$")
      set[key or argument] = value
   end
   if set.file then
      local file = assert(io.open(set.file, "rb"))
      wrk.method = "POST"
      wrk.body = file:read("*a")
      wrk.headers["Content-Type"] = set.type
      file:close()
   end
   if set.pipeline then
      local batch = string.rep(wrk.format(), tonumber(set.pipeline))
      wrk.format = function() return batch end
   end
end

function done(summary, latency, requests)
   local fields = {
      string.format('"requests":%d,"duration":%d,"bytes":%.0f', summary.requests, summary.duration, summary.bytes),
   }
   for _, class in ipairs({"connect", "read", "write", "timeout", "status"}) do
      table.insert(fields, string.format('"%s":%d', class, summary.errors[class]))
   end
   if latency.max > 0 then
      table.insert(fields, string.format('"mean":%.3f,"max":%d', latency.mean, latency.max))
      for _, percent in ipairs({50, 75, 90, 99, 99.9}) do
         table.insert(fields, string.format('"p%g":%d', percent, latency:percentile(percent)))
      end
   end
   io.write("{", table.concat(fields, ","), "}\n")
end
